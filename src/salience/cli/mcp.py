"""Commands for MCP: serve on standard input and output, and install the server in a client's configuration."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from salience.cli.options import TOOLS_HELP, Call, DryRun, Globals, Yes, command
from salience.cli.output import Answer, confirm, is_interactive, one_line, sanitize, tsv
from salience.errors import InputError
from salience.records import BOUNDS, Grant, checks

if TYPE_CHECKING:
    from salience.server.mcp.callers import Caller
    from salience.server.mcp.install import Client
    from salience.server.mcp.tools import Tool

app = typer.Typer()
group = typer.Typer(help="Speak MCP with agents and editors.", invoke_without_command=True)
app.add_typer(group, name="mcp")
HELLO: Final = "Speaking MCP on standard input and output; a client starts this: see salience mcp install --help.\n"
_FLAGS: Final = {"environment": "--environment", "project": "--project", "user_id": "--user", "agent_id": "--agent"}


Environment = Annotated[
    str | None, typer.Option("--environment", metavar="NAME", help="Default environment of the tools' calls.")
]
Project = Annotated[str | None, typer.Option("--project", metavar="NAME", help="Default project of the calls.")]
User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="Default user of the calls.")]
Agent = Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Default agent of the calls.")]
Tools = Annotated[str | None, typer.Option("--tools", metavar="NAMES", help=TOOLS_HELP)]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Offer no tool that changes a memory; count no accesses.")]


@group.callback()
def alone(ctx: typer.Context, tools: Tools = None) -> None:
    """Speak MCP with agents and editors; without a command, serve."""
    ctx.obj = replace(ctx.obj, tools=tools)  # `salience mcp --tools all serve` equals `salience mcp serve --tools all`
    if ctx.invoked_subcommand is None:
        _serve(ctx.obj, {}, tools, read_only=False)


@command(group, scope=None)
def serve(
    call: Call,
    environment: Environment = None,
    project: Project = None,
    user: User = None,
    agent: Agent = None,
    read_only: ReadOnly = False,
    tools: Tools = None,
) -> None:
    """Run an MCP server on standard input and output.

    The scope options are defaults for calls that name no scope, not limits. Many servers may share one file. The store
    may be the URL of a server; SALIENCE_API_KEY then holds its key. Logs go to standard error.
    """
    where = _scope(environment, project, user, agent)
    _serve(call.options, where, tools or call.options.tools, read_only=read_only)


def _scope(environment: str | None, project: str | None, user: str | None, agent: str | None) -> dict[str, str]:
    """Return the coordinates that were given."""
    given = dict(zip(BOUNDS, (environment, project, user, agent), strict=True))
    return {name: checks.name(name, value) for name, value in given.items() if value is not None}


def _serve(options: Globals, defaults: dict[str, str], tools: str | None, *, read_only: bool) -> None:
    import salience
    from salience import settings
    from salience.loading import require, uncollected
    from salience.rank import profiles

    require("mcp", "MCP", "server")
    with uncollected():  # saves a fifth of the SDK's import time
        from salience.server.mcp import stdio

    offered = _tools(tools or settings.load().mcp_tools)
    profile = None if options.profile is None else profiles.load(options.profile)
    if is_interactive():
        sys.stderr.write(HELLO)
    with salience.connect(options.store, embedder=options.embedder, profile=profile, warm=True) as memory:
        stdio.serve(_caller(memory, defaults, read_only=read_only), offered)


def _tools(tools: str) -> Mapping[str, Tool]:
    """Return the tools that a setting or an option names."""
    from salience.loading import require

    require("mcp", "MCP", "server")
    from salience.server.mcp.tools import chosen

    return chosen(tools)


def _caller(memory: Any, defaults: dict[str, str], *, read_only: bool) -> Caller:
    from salience.engine import Engine
    from salience.server.gate import Gate
    from salience.server.mcp.callers import LocalCaller, RemoteCaller

    if not isinstance(memory, Engine):
        return RemoteCaller(memory, defaults, read_only)
    rights = ("read",) if read_only else ("read", "write")
    return LocalCaller(Gate(memory), Grant(tenant=memory.services.tenant, rights=rights, name="stdio"), defaults)


@command(group, scope=())
def install(
    call: Call,
    client: Annotated[str, typer.Option(metavar="NAME", help="One of: claude-code, claude-desktop, cursor, vscode.")],
    project_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Only for the project in this folder. Default: for the user.")
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the server in the client.")] = "salience",
    environment: Environment = None,
    project: Project = None,
    user: User = None,
    agent: Agent = None,
    read_only: ReadOnly = False,
    tools: Tools = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the entry.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> Answer:
    """Add the server to the configuration of a client, or remove it.

    The change is shown before anything is written, and a copy of the file is kept. Other entries and comments stay as
    they are. The store, embedder and profile given before the command are added too.
    """
    from salience.server.mcp import install as installing

    chosen = installing.CLIENTS[checks.choice("client", client, installing.CLIENTS)]
    where = _scope(environment, project, user, agent)
    entry = None if remove else _entry(chosen, call.options, where, tools, read_only=read_only)
    change = installing.planned(chosen, chosen.file(project_dir), checks.name("name", name), entry)
    kept = None
    if change.changes and not dry_run:
        if not yes:
            sys.stderr.write(sanitize(change.diff()) + "\n")
        confirm(f"Write this to {change.file}?", yes)
        kept = installing.write(change, datetime.now(UTC))
    done = "unchanged" if not change.changes else "would be written" if dry_run else "written"
    copied = None if kept is None else str(kept)
    record = {"file": str(change.file), "done": done, "diff": change.diff(), "kept": copied}
    is_shown = bool(kept) and not yes
    lines = [] if is_shown else [sanitize(line) for line in change.diff().splitlines()]
    lines += [tsv(done, change.file), *([] if copied is None else [f"kept\t{one_line(copied)}"])]
    return Answer(record, lines)


def _entry(
    client: Client, options: Globals, where: dict[str, str], tools: str | None, *, read_only: bool
) -> dict[str, Any]:
    """Return the client's entry: the command of this installation with the options given here.

    Raises:
        InputError: the URL of the store holds a password, which would be written to the client's file.
    """
    from salience import settings
    from salience.compose import EMBEDDER, MEMORY, is_url
    from salience.server.mcp import install

    store = options.store or settings.load().url
    is_secret = settings.masked(store) != store
    from_variable = is_secret and any((one.name, one.source) == ("url", "environment") for one in settings.standing())
    if is_secret and (options.store is not None or (from_variable and client.variable is None)):
        remedy = f"Write it as url into {settings.config_file()} instead."
        problem = f"{settings.masked(store)} has a password, which would stand in the client's file"
        raise InputError("store", settings.masked(store), remedy, problem)
    command = [install.command()]
    if store != settings.default_target() and not is_secret:
        is_file = "://" not in store and store != MEMORY
        command += ["--store", str(Path(store).expanduser().absolute()) if is_file else store]
    if options.embedder != EMBEDDER and not is_url(store):
        command += ["--embedder", options.embedder]
    if options.profile is not None:
        command += ["--profile", options.profile]
    command += ["mcp", "serve", *(part for name, value in where.items() for part in (_FLAGS[name], value))]
    command += ["--read-only"] if read_only else []
    if tools is not None:
        _tools(tools)  # rejects an unknown name now, not when the client starts the server
        command += ["--tools", tools]
    variables = [
        *(["SALIENCE_API_KEY"] if is_url(store) else []),
        *([settings.variable("url")] if from_variable else []),
    ]
    return client.entry(command, variables)
