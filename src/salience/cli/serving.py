"""The command that serves: REST, MCP and metrics, until it is told to end."""

from __future__ import annotations

from typing import Annotated

import typer

from salience import settings
from salience.cli.options import TOOLS_HELP, given
from salience.cli.surface import Globals, app, paragraphs
from salience.loading import require

HELP = paragraphs("""
    Serve the store: REST at /v1, MCP at /mcp, /healthz, /readyz, /metrics.

    Runs until SIGTERM or Ctrl+C; then it takes no more requests, answers those that it has, and ends with code 0. A
    second signal ends it at once. What it has to say is on stderr, a JSON line each, or readable lines on a terminal.

    As long as no key was made (salience keys create), it serves this machine alone. All else is set as docs/server.md
    tells: SALIENCE_SERVER_RATE, SALIENCE_SERVER_UPKEEP, ...
""")


@app.command("serve", help=HELP)
def serve(
    ctx: typer.Context,
    host: Annotated[str | None, typer.Option(metavar="NAME", help="Address to listen on. Default: 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(metavar="N", help="Its port; 0: any. Default: 8484.")] = None,
    workers: Annotated[int | None, typer.Option(metavar="N", help="Processes. Default: 1.")] = None,
    threads: Annotated[
        int | None, typer.Option(metavar="N", help="Requests that a process works on at a time. Default: 32.")
    ] = None,
    tools: Annotated[str | None, typer.Option(metavar="NAMES", help=TOOLS_HELP)] = None,
) -> None:
    """Serve the store that the options before the command name."""
    require("fastapi", "salience serve", "server")
    require("structlog", "salience serve", "server")
    from salience.server import Plan, process  # no other command has use for what it loads

    options: Globals = ctx.obj
    own = given(
        url=options.store,
        server_host=host,
        server_port=port,
        server_workers=workers,
        server_threads=threads,
        mcp_tools=tools,
    )
    chosen = given(profile=options.profile)
    process.run(Plan(settings=settings.load(**own), embedder=options.embedder, **chosen))
