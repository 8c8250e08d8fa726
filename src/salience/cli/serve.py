"""The command serve: REST, MCP, the dashboard and metrics over HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from salience.cli.options import TOOLS_HELP, Call, command, given

app = typer.Typer()


@command(app, scope=None)
def serve(
    call: Call,
    host: Annotated[str | None, typer.Option(metavar="NAME", help="Address to listen on. Default: 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(metavar="N", help="Port; 0: any. Default: 8484.")] = None,
    workers: Annotated[int | None, typer.Option(metavar="N", help="Worker processes. Default: 1.")] = None,
    threads: Annotated[
        int | None, typer.Option(metavar="N", help="Concurrent requests per worker. Default: 32.")
    ] = None,
    tools: Annotated[str | None, typer.Option(metavar="NAMES", help=TOOLS_HELP)] = None,
) -> None:
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

    own = given(
        url=call.options.store,
        server_host=host,
        server_port=port,
        server_workers=workers,
        server_threads=threads,
        mcp_tools=tools,
    )
    chosen = given(profile=call.options.profile)
    process.run(process.ServerConfig(settings=settings.load(**own), embedder=call.options.embedder, **chosen))
