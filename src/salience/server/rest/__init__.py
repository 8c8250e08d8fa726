"""The verbs over HTTP: requests are parsed, the gate is asked, answers are shaped."""
