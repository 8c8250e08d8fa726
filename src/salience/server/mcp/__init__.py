"""MCP, the Model Context Protocol: the verbs as tools, with prompts and resources, over stdio and over HTTP.

```
tools       which verbs are tools, what a model is told of each, their schemas
arguments   from what a model gives to a request
texts       results as text for a model to read
bootstrap   what a session starts with: resources, and the projects that there are
prompts     texts that a user starts a task with
asking      who answers: an engine behind its gate, or a server
server      all of these put into the SDK's server
http, auth  the server as an ASGI application; who calls, and which OAuth issuer grants access
stdio       the server on standard input and output
clients     the configuration files of programs that speak MCP
jsonc       edits of JSON text that leave all else as it is
install     our entry in such a file: the change as a diff, the writing
```

The library of the same name is imported as `mcp`; this package is `salience.server.mcp`.
"""
