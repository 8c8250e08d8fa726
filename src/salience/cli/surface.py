"""The command `salience` itself: its global options, and how errors become messages and exit codes.

Exit codes: 0 done; 1 a service failed, or there is no result; 2 bad usage;
130 interrupted; 141 the reader of the output went away.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

import salience
from salience.cli.commands import COMMANDS
from salience.cli.signs import visible
from salience.errors import InputError, SalienceError

USAGE: Final = 2
FAILED: Final = 1
CLOSED_PIPE: Final = 128 + 13
"""What a shell reports of a command that ended because its reader did (SIGPIPE)."""


@dataclass(frozen=True, slots=True)
class Globals:
    """The options before the command; None where the user named nothing."""

    store: str | None
    embedder: str
    profile: str | None


class Unread(TyperCommand):
    """A command as help lists it, whose module is not imported."""

    def __init__(self, name: str) -> None:
        super().__init__(name, help=COMMANDS[name].summary)


def read(name: str) -> Any:
    """Return a command whole, its module imported."""
    import_module(f"{__package__}.{COMMANDS[name].module}")
    whole: Any = typer.main.get_command(app)
    return whole.commands[name]


class Surface(TyperGroup):
    """The commands, with an error told in one or two lines on stderr, never as a traceback.

    A command's module is imported when the command is called, or its own help is asked for; until then what
    `COMMANDS` tells of it stands in its place.
    """

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: self.commands.get(name) or Unread(name) for name in COMMANDS}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, the command and the arguments that are left to it."""
        if args and isinstance(self.commands.get(args[0]), Unread):
            self.commands[args[0]] = read(args[0])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; when the reader of stdout is gone, end without a word."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the last flush has where to go
            raise typer.Exit(CLOSED_PIPE) from None

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands in the order of `COMMANDS`."""
        return list(self.commands)

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run and exit with the code that the module's docstring tells."""
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except typer.TyperException as error:
            sys.exit(complain(error.format_message(), error.exit_code, hint(error)))
        except InputError as error:
            sys.exit(complain(str(error), USAGE))
        except SalienceError as error:
            sys.exit(complain(str(error), FAILED))
        except OSError as error:
            what = f": {error.filename}" if error.filename else ""
            sys.exit(complain(f"{error.strerror or type(error).__name__}{what}", FAILED))
        sys.exit(code if isinstance(code, int) else 0)


def complain(message: str, code: int, further: str = "") -> int:
    """Write one or two lines to stderr and return `code`."""
    sys.stderr.write(f"salience: {visible(' '.join(message.split()))}\n{further}")
    return code


def hint(error: typer.TyperException) -> str:
    """Return where to read on, as a line, if the error knows which command it belongs to."""
    context = getattr(error, "ctx", None)
    return f"Try: {context.command_path} --help\n" if context else ""


def paragraphs(text: str) -> str:
    """Return `text` with each paragraph on one line, so that help is broken where its reader's terminal ends."""
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


HELP: Final = paragraphs("""
    Memory for AI agents that ranks what matters, shows why, and loses nothing.

    Options of the store and the profile stand before the command, all others after it. Output is made for reading on
    a terminal, plain lines when piped, and one JSON document with --json.
""")

app = typer.Typer(
    cls=Surface,
    help=HELP,
    name="salience",
    rich_markup_mode=None,  # set by `main`, once it is known whether a person reads
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    invoke_without_command=True,
)


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"salience {salience.__version__}")
        raise typer.Exit


@app.callback()
def opening(
    ctx: typer.Context,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET", help="File or postgresql:// database. Default: SALIENCE_URL, else the platform's place."
        ),
    ] = None,
    embedder: Annotated[
        str, typer.Option(metavar="NAME", help="Who makes vectors: minilm, static, fastembed or openai.")
    ] = "minilm",
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="Ranking profile: a name or the path of a TOML file.")
    ] = None,
    _version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Keep the options before the command for it; without a command, show the help."""
    ctx.obj = Globals(store, embedder, profile)
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
