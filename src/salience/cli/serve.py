"""The command serve: REST, MCP, the dashboard and metrics over HTTP."""

from __future__ import annotations

from typing import Final

import typer

from salience.cli.options import TOOLS_HELP, Call, command, option

app = typer.Typer()
SETTINGS: Final = {
    "server_host": option(str, "--host", "NAME", "Address to listen on. Default: 127.0.0.1."),
    "server_port": option(int, "--port", "N", "Port; 0: any. Default: 8484."),
    "server_workers": option(int, "--workers", "N", "Worker processes. Default: 1."),
    "server_threads": option(int, "--threads", "N", "Concurrent requests per worker. Default: 32."),
    "mcp_tools": option(str, "--tools", "NAMES", TOOLS_HELP),
}
"""Setting -> its option."""


@command(app, options=SETTINGS, json=False)
def serve(call: Call) -> None:
    """Serve the store over HTTP: REST, MCP and metrics.

    Paths are /v1, /mcp, /healthz, /readyz and /metrics. Runs until SIGTERM or Ctrl+C; then it accepts no more requests,
    finishes those in progress, and exits with code 0. A second signal ends it at once. Logs go to stderr, as JSON lines
    or as readable lines on a terminal.

    Until a key is created (salience keys create), it serves only this machine. docs/server.md lists all settings:
    SALIENCE_SERVER_RATE, SALIENCE_SERVER_UPKEEP, ...
    """
    from salience import settings
    from salience.loading import require

    require("fastapi", "salience serve", "server")
    require("structlog", "salience serve", "server")
    from salience.server import process

    own = call.given if call.options.store is None else {"url": call.options.store, **call.given}
    chosen = {} if call.options.profile is None else {"profile": call.options.profile}
    process.run(process.ServerConfig(settings=settings.load(**own), embedder=call.options.embedder, **chosen))
