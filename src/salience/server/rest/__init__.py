"""The verbs over HTTP.

```
app         the FastAPI application and its middleware
routes      one route per method and path of the table of verbs
parsing     requests: query, JSON body, idempotency key, conditions
responses   results: status, ETag, Link, streamed lines
problems    errors as problem details
openapi     the parts of the OpenAPI document that come from the table of verbs
```
"""
