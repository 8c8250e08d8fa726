"""The verbs over HTTP: `app` routes, `parsing` reads requests, `responses` writes results, `openapi` describes both."""
