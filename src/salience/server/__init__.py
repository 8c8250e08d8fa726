"""The server: one engine behind REST, MCP and metrics, in one process or several.

```
process     ServerConfig, run; the supervisor and its workers; the socket
server      uvicorn in one process, and its shutdown
app         the application of one process
rest/       the verbs over HTTP
mcp/        the verbs as MCP tools
gate        rights, bounds and limits of every request
auth        API keys, authentication
oauth       access tokens of an OAuth issuer
limits      the rate of a caller
connections limits on the number and speed of connections
upkeep      upkeep in the background
metrics, traces, telemetry, logs
```
"""
