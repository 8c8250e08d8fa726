"""Commands of MCP: be a server on standard input and output, and enter that in a client's configuration."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import salience
from salience import settings
from salience.cli.calls import Call, command
from salience.cli.options import TOOLS_HELP
from salience.cli.repairing import asks, confirm
from salience.cli.screen import Answer
from salience.cli.signs import one_line, visible
from salience.cli.surface import Globals, app
from salience.compose import EMBEDDER, MEMORY, is_url
from salience.engine import Engine
from salience.errors import InputError
from salience.loading import require, uncollected
from salience.rank import profiles
from salience.records import BOUNDS, Grant, checks
from salience.server.gate import Gate
from salience.server.mcp import clients, install

if TYPE_CHECKING:
    from salience.server.mcp.asking import Asker
    from salience.server.mcp.tools import Tool

group = typer.Typer(help="Speak MCP with agents and editors.", invoke_without_command=True)
app.add_typer(group, name="mcp")
API_KEY: Final = "SALIENCE_API_KEY"
"""The variable that holds the key of a server."""
URL: Final = settings.variable("url")
"""The variable that names the store."""
TOOLS: Final = "salience.server.mcp.tools"
"""Where the context of a command keeps the tools that its group was given."""
HELLO: Final = "Speaking MCP on standard input and output; a client starts this: see salience mcp install --help.\n"
_FLAGS: Final = {"environment": "--environment", "project": "--project", "user_id": "--user", "agent_id": "--agent"}


Environment = Annotated[
    str | None, typer.Option("--environment", metavar="NAME", help="Environment of a call that names no other.")
]
Project = Annotated[
    str | None, typer.Option("--project", metavar="NAME", help="Project of a call that names no other.")
]
User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="User of a call that names no other.")]
Agent = Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Agent of a call that names no other.")]
Tools = Annotated[str | None, typer.Option("--tools", metavar="NAMES", help=TOOLS_HELP)]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Offer no tool that changes a memory; leave no trace.")]


@group.callback()
def alone(ctx: typer.Context, tools: Tools = None) -> None:
    """Speak MCP with agents and editors; without a command, serve."""
    ctx.meta[TOOLS] = tools  # `salience mcp --tools all serve` is the same as `salience mcp serve --tools all`
    if ctx.invoked_subcommand is None:
        _serve(ctx.obj, {}, tools, read_only=False)


@group.command()
def serve(
    ctx: typer.Context,
    environment: Environment = None,
    project: Project = None,
    user: User = None,
    agent: Agent = None,
    read_only: ReadOnly = False,
    tools: Tools = None,
) -> None:
    """Be an MCP server on standard input and output.

    What the options name holds for calls that name nothing else; it is no bound. Many may serve one file at a time.
    The store may be a server, by its URL: SALIENCE_API_KEY holds the key then. Logs go to standard error.
    """
    _serve(ctx.obj, _given(environment, project, user, agent), tools or ctx.meta.get(TOOLS), read_only=read_only)


def _given(environment: str | None, project: str | None, user: str | None, agent: str | None) -> dict[str, str]:
    """Return the coordinates that were named; `InputError` for one that is no name."""
    given = dict(zip(BOUNDS, (environment, project, user, agent), strict=True))
    return {name: checks.name(name, value) for name, value in given.items() if value is not None}


def _serve(options: Globals, defaults: dict[str, str], tools: str | None, *, read_only: bool) -> None:
    require("mcp", "MCP", "server")
    with uncollected():  # a fifth of the time that the SDK takes to load
        from salience.server.mcp import stdio

    offered = _offered(tools or settings.load().mcp_tools)
    profile = None if options.profile is None else profiles.load(options.profile)
    if asks():
        sys.stderr.write(HELLO)
    with salience.connect(options.store, embedder=options.embedder, profile=profile, warm=True) as memory:
        stdio.serve(_asker(memory, defaults, read_only=read_only), offered)


def _offered(tools: str) -> Mapping[str, Tool]:
    """Return the tools that a setting or an option names."""
    require("mcp", "MCP", "server")
    from salience.server.mcp.tools import chosen

    return chosen(tools)


def _asker(memory: Any, defaults: dict[str, str], *, read_only: bool) -> Asker:
    from salience.server.mcp.asking import Gated, Remote

    if not isinstance(memory, Engine):
        return Remote(memory, defaults, read_only)
    rights = ("read",) if read_only else ("read", "write")
    return Gated(Gate(memory), Grant(tenant=memory.services.tenant, rights=rights, name="stdio"), defaults)


@command(group, "install", scope=())
def install_(
    call: Call,
    client: Annotated[str, typer.Option(metavar="NAME", help=f"One of: {', '.join(clients.CLIENTS)}.")],
    project_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="For the project in this folder. Default: for all you do.")
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="What the client is to call it.")] = "salience",
    environment: Environment = None,
    project: Project = None,
    user: User = None,
    agent: Agent = None,
    read_only: ReadOnly = False,
    tools: Tools = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the entry away.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the change, and write nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Go ahead without being asked.")] = False,
) -> Answer:
    """Enter the server in the configuration of a client, or take it out.

    The change is shown before anything is written, and a copy of the file is kept. Other entries, and comments, stay as
    they are. The store, embedder and profile named before the command are entered too.
    """
    chosen = clients.CLIENTS[checks.choice("client", client, clients.CLIENTS)]
    where = _given(environment, project, user, agent)
    entry = None if remove else _entry(chosen, call.options, where, tools, read_only=read_only)
    change = install.planned(chosen, chosen.file(project_dir), checks.name("name", name), entry)
    kept = None
    if change.changes and not dry_run:
        if not yes:
            sys.stderr.write(visible(change.diff()) + "\n")
        confirm(f"Write this to {change.file}?", yes)
        kept = install.write(change, datetime.now(UTC))
    done = "unchanged" if not change.changes else "would be written" if dry_run else "written"
    record = {
        "file": str(change.file),
        "done": done,
        "diff": change.diff(),
        "kept": None if kept is None else str(kept),
    }
    return Answer(record, lambda: _told(change, done, kept, shown=bool(kept) and not yes))


def _entry(
    client: clients.Client, options: Globals, where: dict[str, str], tools: str | None, *, read_only: bool
) -> dict[str, Any]:
    """Return how the client is to start this installation, with the options that this command was given.

    Raises:
        InputError: the store's URL holds a password, which the client's file is not to hold.
    """
    store = options.store or settings.load().url
    remote, secret = is_url(store), settings.masked(store) != store
    handed_on = secret and _comes_of_a_variable()
    if secret and (options.store is not None or (handed_on and client.variable is None)):
        remedy = f"Write it as url into {settings.config_file()} instead."
        problem = f"{settings.masked(store)} has a password, which would stand in the client's file"
        raise InputError("store", settings.masked(store), remedy, problem)
    named = store != settings.default_target() and not secret
    shown = ["--store", store if _no_file(store) else _absolute(store)] if named else []
    models = [] if remote or options.embedder == EMBEDDER else ["--embedder", options.embedder]
    profile = [] if options.profile is None else ["--profile", options.profile]
    scope = [part for name, value in where.items() for part in (_FLAGS[name], value)]
    if tools is not None:
        _offered(tools)  # so that a wrong name is told now, and not to a client that starts the server
    offered = [] if tools is None else ["--tools", tools]
    started = [*shown, *models, *profile, "mcp", "serve", *scope, *(["--read-only"] if read_only else []), *offered]
    variables = [*([API_KEY] if remote else []), *([URL] if handed_on else [])]
    return client.entry([clients.command(), *started], variables)


def _comes_of_a_variable() -> bool:
    """Return whether the store of the settings does."""
    return any((one.name, one.source) == ("url", "environment") for one in settings.standing())


def _no_file(store: str) -> bool:
    return "://" in store or store == MEMORY


def _absolute(store: str) -> str:
    return str(Path(store).expanduser().absolute())


def _told(change: install.Change, done: str, kept: Path | None, *, shown: bool) -> Iterator[str]:
    if not shown:
        yield from (visible(line) for line in change.diff().splitlines())
    yield f"{done}\t{one_line(str(change.file))}"
    if kept is not None:
        yield f"kept\t{one_line(str(kept))}"
