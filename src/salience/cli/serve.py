"""The commands serve (REST, MCP, the dashboard and metrics over HTTP) and ui (the dashboard of a store)."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, Final

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
def serve(
    call: Call, no_ui: Annotated[bool, typer.Option("--no-ui", help="Do not serve the dashboard at /ui.")] = False
) -> None:
    """Serve the store over HTTP: REST, MCP, the dashboard and metrics.

    Paths are /v1, /mcp, /ui, /healthz, /readyz and /metrics. Runs until SIGTERM or Ctrl+C; then it accepts no more
    requests, finishes those in progress, and exits with code 0. A second signal ends it at once. Logs go to stderr, as
    JSON lines or as readable lines on a terminal.

    Until a key is created (salience keys create), it serves only this machine. Settings without an option here, such as
    SALIENCE_SERVER_RATE, are environment variables or keys of the config file: see salience config show.
    """
    from salience import settings
    from salience.loading import require

    require("fastapi", "salience serve", "server")
    require("structlog", "salience serve", "server")
    from salience.server import process

    own = call.given if call.options.store is None else {"url": call.options.store, **call.given}
    own = {**own, "ui": False} if no_ui else own
    chosen: dict[str, Any] = {} if call.options.profile is None else {"profile": call.options.profile}
    process.run(process.ServerConfig(settings=settings.load(**own), embedder=call.options.embedder, **chosen))


@command(app, json=False)
def ui(
    call: Call,
    place: Annotated[
        str | None, typer.Argument(metavar="STORE", help="File or database. Default: as for other commands.")
    ] = None,
    port: Annotated[int, typer.Option(metavar="N", help="Port; 0: any.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the link; open no browser.")] = False,
) -> None:
    """Open the dashboard of a store in the browser.

    It listens on this machine alone, until Ctrl+C. The link holds a token that works once: the browser gets a cookie in
    exchange. Other callers need an API key. To let others see the dashboard, use salience serve, which has it at /ui.
    """
    import webbrowser

    from salience import compose, settings
    from salience.loading import require

    for library in ("fastapi", "structlog", "jinja2"):
        require(library, "salience ui", "server")
    from salience.server import process

    target = place or call.options.store
    compose.require_store(target)
    given: dict[str, Any] = {} if target is None else {"url": target}
    chosen: dict[str, Any] = {} if call.options.profile is None else {"profile": call.options.profile}
    loaded = settings.load(
        **given, server_host="127.0.0.1", server_port=port, server_workers=1, server_hosts=(), server_upkeep="forever",
        ui=True, log_level="warning",
    )  # fmt: skip
    token = secrets.token_urlsafe(32)
    config = process.ServerConfig(settings=loaded, embedder=call.options.embedder, one_time_token=token, **chosen)

    def ready(url: str) -> None:
        link = f"{url}/ui/open?token={token}"
        typer.echo(f"The dashboard is at {link}\nThe link works once. Press Ctrl+C to end.")
        if not no_browser:
            webbrowser.open(link)

    typer.echo("Opening the store ...", err=True)
    process.run(config, ready)
