"""MCP, the Model Context Protocol: the verbs as tools, with prompts and resources, over stdio and HTTP.

```
tools       which verbs are tools; their descriptions, schemas and arguments; their callers
texts       results as text for a model
prompts     prompts and resources
server      the handlers, put into the SDK's server; the server on standard input and output
http        the server as an ASGI application
install     our entry in the configuration file of an MCP client
```

The SDK is imported as `mcp`; this package is `salience.server.mcp`.
"""
