"""The command `salience`: its global options, its commands, and errors as messages and exit codes.

Exit codes: 0 success; 1 a service failed, or there is no result; 2 invalid usage; 130 interrupted;
141 the reader of the output closed it.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

import salience
from salience.cli import (
    chat,
    config,
    db,
    demo,
    evaluate,
    explain,
    files,
    hook,
    keys,
    maintain,
    mcp,
    memories,
    profiles,
    serve,
)
from salience.cli.options import Globals, unwrapped
from salience.cli.output import FAILED, complain
from salience.errors import InputError, SalienceError

USAGE: Final = 2
CLOSED_PIPE: Final = 128 + 13  # as a shell reports SIGPIPE


class Group(TyperGroup):
    """The command group: an error is one or two lines on stderr, never a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; end quietly if the reader of stdout is gone."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the last flush
            raise typer.Exit(CLOSED_PIPE) from None

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run and exit with a code from the module's docstring."""
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except typer.TyperException as error:
            context = getattr(error, "ctx", None)
            hint = f"Try: {context.command_path} --help\n" if context else ""
            sys.exit(complain(error.format_message(), error.exit_code, hint))
        except InputError as error:
            sys.exit(complain(str(error), USAGE))
        except SalienceError as error:
            sys.exit(complain(str(error), FAILED))
        except OSError as error:
            file = f": {error.filename}" if error.filename else ""
            sys.exit(complain(f"{error.strerror or type(error).__name__}{file}", FAILED))
        sys.exit(code if isinstance(code, int) else 0)


HELP: Final = """
    Memory for AI agents that ranks what matters, shows why, and loses nothing.

    Options of the store and the profile go before the command, all other options after it. Output is formatted on a
    terminal, plain lines in a pipe, and one JSON document with --json.
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
for module in (memories, explain, files, maintain, db, serve, keys, mcp, hook, chat, profiles, evaluate, config, demo):
    app.add_typer(module.app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"salience {salience.__version__}")
        raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET",
            help="File, database or server URL. Default: SALIENCE_URL, else a file in the data directory.",
        ),
    ] = None,
    embedder: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Embedding model: minilm, static, bge, multilingual, fastembed or openai. Default: SALIENCE_EMBEDDER, "
            "else minilm.",
        ),
    ] = None,
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="Ranking profile: a name or the path of a TOML file.")
    ] = None,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Store the options before the command; without a command, show the help."""
    ctx.obj = Globals(store, embedder, profile)
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


def main() -> None:
    """Run the command line and exit."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for characters that the terminal cannot show
    app.rich_markup_mode = "rich" if sys.stdout.isatty() else None
    app(prog_name="salience")
