"""The command `salience`: its global options, its commands, and errors as messages and exit codes.

Exit codes: 0 success; 1 a service failed, or there is no result; 2 invalid usage; 130 interrupted;
141 the reader of the output closed it.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections import UserDict
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_group

import salience
from salience.cli.options import FLAGS, EmbedderName, Globals, ProfileName, Store, unwrapped
from salience.cli.output import FAILED, complain, for_store
from salience.errors import AccessError, InputError, NotFoundError, SalienceError, shown

USAGE: Final = 2
CLOSED_PIPE: Final = 128 + 13  # as a shell reports SIGPIPE


PANELS: Final = {
    "Remember and recall": "remember recall context explain scores decay ingest list get facets sessions graph-recall",
    "Change and look back": "update forget restore erase history changes review dismiss activity recalls end-session",
    "Agents, servers and the dashboard": "mcp serve ui keys hook chat",
    "Look after a store": "status stats doctor upkeep consolidate reflect backup reinstate reembed db",
    "Move memories": "import export copy",
    "Rank and measure": "profiles eval tune",
    "Help": "demo help config",
}
"""Heading of the help -> its commands."""
MODULES: Final = {
    "explain": "explain help",
    "files": "ingest import export copy",
    "maintain": "consolidate reflect upkeep backup reinstate doctor reembed",
    "serve": "serve ui",
    "evaluate": "eval tune",
    **dict.fromkeys(("chat", "config", "db", "demo", "hook", "keys", "mcp", "profiles", "status"), ""),
}
"""Module -> its commands; "" for one of its own name. The other commands are in `memories`."""
BEFORE: Final = {"--store": "TARGET", "--embedder": "NAME", "--profile": "NAME"}
"""Option that does not go between a group and its command -> its value."""
HINTS: Final[dict[type[SalienceError], str]] = {
    NotFoundError: "To see the ids: salience list --user '*' --project '*' --agent '*'\n",
    AccessError: "Set SALIENCE_API_KEY. Make one on the server with salience keys create --right read --right write\n",
}
"""Error -> a second line with the command that helps, if the message has none since callers of the API read it too."""
REMEDIES: Final = {"int_parsing": "Give a whole number.", "float_parsing": "Give a number."}
"""Error of pydantic -> what to do."""
AFTER: Final = {**dict.fromkeys((*FLAGS.values(), "--session"), "NAME"), "--json": ""}
"""Option that goes after the command -> its value."""


class Commands(UserDict[str, Any]):
    """Name -> command, in the order of the help. The first use of a command imports its module."""

    def __init__(self) -> None:
        super().__init__()
        self.panels = {name: heading for heading, names in PANELS.items() for name in names.split()}
        self.data = dict.fromkeys(self.panels)

    def __getitem__(self, name: str) -> Any:
        """Return a command."""
        if self.data[name] is None:
            homes = (module for module, names in MODULES.items() if name in (names or module).split())
            apart = typer.Typer(rich_markup_mode=app.rich_markup_mode)
            apart.add_typer(import_module(f"salience.cli.{next(homes, 'memories')}").app)
            for own, command in get_group(apart).commands.items():
                vars(command)["rich_help_panel"] = self.panels[own]
                self.data[own] = command
        return self.data[name]


class Group(TyperGroup):
    """The command group: an error is one or two lines on stderr, never a traceback."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = Commands()
        self.store: str | None = None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the plain list of commands, under the headings that a terminal has as panels."""
        for heading, names in PANELS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, _summary(self.commands[name].help)) for name in names.split()])

    def invoke(self, ctx: Any) -> Any:
        """Run the command; end quietly if the reader of stdout is gone."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the last flush
            raise typer.Exit(CLOSED_PIPE) from None
        finally:
            self.store = ctx.obj.store if isinstance(ctx.obj, Globals) else None  # for the message of an error

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run and exit with a code from the module's docstring."""
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except typer.TyperException as error:
            context = getattr(error, "ctx", None)
            hint = f"Try: {context.command_path} --help\n" if context else ""
            message = _misplaced(error) or _mistyped(error) or error.format_message()
            sys.exit(complain(message, error.exit_code, hint))
        except InputError as error:
            sys.exit(complain(for_store(str(error), self.store), USAGE))
        except SalienceError as error:
            message, hint = str(error), HINTS.get(type(error), "")
            sys.exit(complain(for_store(message, self.store), FAILED, for_store(hint, self.store)))
        except OSError as error:
            file = f": {error.filename}" if error.filename else ""
            sys.exit(complain(f"{error.strerror or type(error).__name__}{file}", FAILED))
        sys.exit(code if isinstance(code, int) else 0)


def _summary(text: str | None) -> str:
    """Return the first sentence of a help text."""
    return (text or "").split("\n")[0].split(". ")[0].removesuffix(".") + "."


def _misplaced(error: Any) -> str | None:
    """Return the message for an option on the wrong side of the command; None for other errors."""
    name, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if name in BEFORE and context is not None and context.parent is not None:
        command = context.command_path.removeprefix("salience ")
        return f"{name} goes before the command: salience {name} {BEFORE[name]} {command} ..."
    if name in AFTER and context is not None and context.parent is None:
        return f"{name} goes after the command: salience COMMAND ... {name} {AFTER[name]}".rstrip()
    return None


def _mistyped(error: Any) -> str | None:
    """Return the message for a value of another type, or for words without quotes; None for other errors."""
    errors: Any = getattr(error.__cause__, "errors", list)()  # of pydantic
    if errors and (remedy := REMEDIES.get(errors[0]["type"])):
        name = error.param.get_error_hint().strip("'")
        return f"{name} is {shown(errors[0]['input'])}. {remedy}"
    if error.message.startswith("Got unexpected extra argument"):
        return f"{error.message}. Put a text of several words in quotes, and repeat an option for each of its values."
    return None


HELP: Final = """
    Memory for AI agents that ranks what matters, shows why, and loses nothing.

    The options below go before or after a command, those of a command after it. Output is formatted on a terminal,
    plain lines in a pipe, and one JSON document with --json.
"""
app = typer.Typer(
    cls=Group,
    name="salience",
    help=unwrapped(HELP),
    rich_markup_mode=None,  # `main` sets it for a terminal
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    invoke_without_command=True,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"salience {salience.__version__}")
        raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    store: Store = None,
    embedder: EmbedderName = None,
    profile: ProfileName = None,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Keep the options before the command; without a command, show what to do next."""
    ctx.obj = Globals(store, embedder, profile)
    if ctx.invoked_subcommand is None:
        from salience.cli import status

        typer.echo(status.first_steps(ctx.obj))


def main() -> None:
    """Run the command line and exit."""
    atexit.register(gc.freeze)  # the last search for garbage, in all that was imported, would take 0.2 s
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for characters that the terminal cannot show
    app.rich_markup_mode = "rich" if sys.stdout.isatty() else None
    app(prog_name="salience")
