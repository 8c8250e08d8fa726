"""The server: one engine behind REST, MCP and metrics, in one process or several.

```
process     ServerConfig, run; the supervisor and its workers; the socket
server      uvicorn in one process: limits on connections, shutdown
app         the application of one process
rest/       the verbs over HTTP
mcp/        the verbs as MCP tools
gate        rights, bounds, limits and rates of every request
auth        API keys, authentication
oauth       access tokens of an OAuth issuer
upkeep      upkeep in the background
metrics, telemetry, logs
```
"""
