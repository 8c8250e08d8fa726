"""A server: one engine behind REST, MCP and metrics, in one process or in several.

```
plan        what is to be served: settings, embedder, profile
process     the whole story: open, bind, announce, serve, leave
listening   the socket, and whether others can reach it
workers     several processes on one socket, replaced when they die
server      uvicorn in this process, and how it ends
connections how many connections there may be, and how slow
site        what one process is made of: engine, keyring, door, gates, application
requests    what is noted of each request: a log line, metrics, a span
watching    what is noted of each verb
streams     answers that go on, and end when the server does
rates       how often a caller may ask
upkeep      passes of upkeep beside the requests
metrics, scraping    Prometheus
traces, otlp         OpenTelemetry
logs        every line on stderr
embedding   an embedder whose work is counted
```
"""

from salience.server.plan import Plan

__all__ = ["Plan"]
