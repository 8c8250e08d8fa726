"""Commands for MCP: serve on standard input and output, and install the server in a client's configuration."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from salience.cli.options import CLIENTS, FLAGS, TOOLS_HELP, Call, DryRun, Globals, Yes, command, option
from salience.cli.output import Answer, confirm, is_interactive, one_line, sanitize, tsv
from salience.errors import InputError
from salience.records import Grant, checks

if TYPE_CHECKING:
    from salience.server.mcp.install import Change, Client

app = typer.Typer()
group = typer.Typer(help="Speak MCP with agents and editors.", invoke_without_command=True)
app.add_typer(group, name="mcp")
HELLO: Final = "Speaking MCP on standard input and output; a client starts this: see salience mcp install --help.\n"
Tools = Annotated[str | None, typer.Option("--tools", metavar="NAMES", help=TOOLS_HELP)]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Offer no tool that changes a memory; count no accesses.")]


DEFAULTS: Final = {
    name: option(str, flag, "NAME", f"Default {flag[2:]} of the tools' calls.", checks.name)
    for name, flag in FLAGS.items()
}
"""Keyword of a coordinate -> the option for its default."""


@group.callback()
def alone(ctx: typer.Context, tools: Tools = None) -> None:
    """Speak MCP with agents and editors; without a command, serve."""
    ctx.obj = replace(ctx.obj, tools=tools)  # `salience mcp --tools all serve` equals `salience mcp serve --tools all`
    if ctx.invoked_subcommand is None:
        _serve(ctx.obj, {}, tools, read_only=False)


@command(group, options=DEFAULTS, json=False)
def serve(call: Call, read_only: ReadOnly = False, tools: Tools = None) -> None:
    """Run an MCP server on standard input and output.

    The scope options are defaults for calls that name no scope, not limits. Many servers may share one file. The store
    may be the URL of a server; SALIENCE_API_KEY then holds its key. Logs go to standard error.
    """
    _serve(call.options, call.given, tools or call.options.tools, read_only=read_only)


def _serve(options: Globals, defaults: dict[str, str], tools: str | None, *, read_only: bool) -> None:
    import salience
    from salience import settings
    from salience.loading import require, uncollected
    from salience.rank import profiles

    require("mcp", "MCP", "server")
    with uncollected():  # saves a fifth of the SDK's import time
        from salience.server.mcp import server

    from salience.engine import Engine
    from salience.server.gate import Gate
    from salience.server.mcp.tools import LocalCaller, RemoteCaller, chosen

    offered = chosen(tools or settings.load().mcp_tools)
    profile = None if options.profile is None else profiles.load(options.profile)
    if is_interactive():
        sys.stderr.write(HELLO)
    with salience.connect(options.store, embedder=options.embedder, profile=profile, warm=True) as memory:
        rights = ("read",) if read_only else ("read", "write")
        if isinstance(memory, Engine):
            grant = Grant(tenant=memory.services.tenant, rights=rights, name="stdio")
            server.serve(LocalCaller(Gate(memory), grant, defaults), offered)
        else:
            server.serve(RemoteCaller(memory, defaults, read_only), offered)


@command(group, options=DEFAULTS)
def install(
    call: Call,
    client: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="One of: claude-code, claude-desktop, codex, cursor, vscode.",
            show_default=False,
            autocompletion=CLIENTS,
        ),
    ] = None,
    project_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Only for the project in this folder. Default: for the user.")
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the server in the client.")] = "salience",
    read_only: ReadOnly = False,
    tools: Tools = None,
    hooks: Annotated[
        bool,
        typer.Option(
            "--hooks",
            help="Also give memories to each prompt, and store each turn: in claude-code, codex and cursor.",
        ),
    ] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the entry and the hooks; with --hooks, only the hooks.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> Answer:
    """Add the server to the configuration of a client, or remove it.

    The change is shown before anything is written, and a copy of the file is kept. Other entries, hooks and comments
    stay as they are. --store, --embedder and --profile are added too if they are given.
    """
    from salience.server.mcp import install as installing

    chosen = installing.CLIENTS[checks.choice("client", client, installing.CLIENTS)]
    if hooks or (remove and chosen.hooks is not None):
        line = None if remove else _hook_line(chosen, call.options, call.given)
        hooked = installing.planned_hooks(chosen, project_dir, line)
    if remove and hooks:
        return _written([hooked], dry_run=dry_run, yes=yes)
    entry = None if remove else _entry(chosen, call.options, call.given, tools, read_only=read_only)
    change = installing.planned(chosen, chosen.file(project_dir), checks.name("name", name), entry)
    with_hooks = hooks or (remove and chosen.hooks is not None and hooked.changes)
    return _written([change, hooked] if with_hooks else [change], dry_run=dry_run, yes=yes)


def _written(changes: Sequence[Change], *, dry_run: bool, yes: bool) -> Answer:
    """Show changes of files, ask for a confirmation and write them; return what was done, and all diffs.

    In JSON, the second change is under `hooks` of the first.
    """
    from salience.server.mcp import install as installing

    changed = [change for change in changes if change.changes]
    diffs = [sanitize(line) for change in changes for line in change.diff().splitlines()]
    kept: dict[Path, Path | None] = {}
    if changed and not dry_run:
        if not yes:
            sys.stderr.write("\n".join(diffs) + "\n")
        confirm(f"Write this to {' and '.join(str(change.file) for change in changed)}?", yes)
        kept = {change.file: installing.write(change, datetime.now(UTC)) for change in changed}
    records, lines = [], list[str]()
    for change in changes:
        done = "unchanged" if not change.changes else "would be written" if dry_run else "written"
        copied = None if kept.get(change.file) is None else str(kept[change.file])
        records.append({"file": str(change.file), "done": done, "diff": change.diff(), "kept": copied})
        lines += [tsv(done, change.file), *([] if copied is None else [f"kept\t{one_line(copied)}"])]
    record, *others = records
    return Answer(
        {**record, **({"hooks": others[0]} if others else {})}, [*([] if kept and not yes else diffs), *lines]
    )


def _entry(
    client: Client, options: Globals, where: dict[str, str], tools: str | None, *, read_only: bool
) -> dict[str, Any]:
    """Return the client's entry: the command of this installation with the options given here.

    Raises:
        MissingExtraError: this installation cannot run the command.
    """
    from salience.loading import require

    require("mcp", "MCP", "server")
    command, variables = _command(client, options)
    command += ["mcp", "serve", *(part for name, value in where.items() for part in (FLAGS[name], value))]
    command += ["--read-only"] if read_only else []
    if tools is not None:
        from salience.server.mcp.tools import chosen

        chosen(tools)  # rejects an unknown name now, not when the client starts the server
        command += ["--tools", tools]
    return client.entry(command, variables)


def _hook_line(client: Client, options: Globals, where: dict[str, str]) -> Callable[[str], str]:
    """Return a function from an event to the command line of its hook, which has the variables of the client."""
    command, _ = _command(client, options)
    scope = [part for name, value in where.items() for part in (FLAGS[name], value)]
    return lambda event: shlex.join([*command, "hook", event, "--client", client.name, *scope])


def _command(client: Client, options: Globals) -> tuple[list[str], list[str]]:
    """Return the command of this installation with the options given here, and the names of variables that it needs.

    Raises:
        InputError: the URL of the store holds a password, which would be written to the client's file.
    """
    from salience import settings
    from salience.compose import EMBEDDER, MEMORY, is_url
    from salience.server.mcp import install

    store = options.store or settings.load().url
    is_secret = settings.masked(store) != store
    from_variable = is_secret and any((one.name, one.source) == ("url", "environment") for one in settings.effective())
    if is_secret and (options.store is not None or (from_variable and client.variable is None)):
        remedy = f"Write it as url into {settings.config_file()} instead."
        problem = f"{settings.masked(store)} has a password, which would be written to the client's file"
        raise InputError("store", settings.masked(store), remedy, problem)
    command = [install.command()]
    if store != settings.default_target() and not is_secret:
        is_file = "://" not in store and store != MEMORY
        command += ["--store", str(Path(store).expanduser().absolute()) if is_file else store]
    embedder = options.embedder or settings.load().embedder
    if embedder != EMBEDDER and not is_url(store):
        command += ["--embedder", embedder]
    if options.profile is not None:
        command += ["--profile", options.profile]
    return command, [
        *(["SALIENCE_API_KEY"] if is_url(store) else []),
        *([settings.variable("url")] if from_variable else []),
    ]
