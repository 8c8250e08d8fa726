"""Options that several commands share, and the decorator that registers a command."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeGuard, get_args

import typer

from salience.arguments import ID, INSTANT, METADATA, TTL, WEIGHTS, WHERE, Argument, Json
from salience.cli.output import Answer, show
from salience.errors import InputError, Words
from salience.records import ANY, checks
from salience.verbs import ALL, Verbs

if TYPE_CHECKING:
    from salience.engine import Engine

STDIN: Final = "-"
Command = Callable[..., "Answer | None"]


@dataclass(frozen=True, slots=True)
class Globals:
    """The options before or after any command, None if not given; `tools` is an option of the group `mcp`."""

    store: str | None
    embedder: str | None
    profile: str | None
    tools: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a command.

    Attributes:
        options: the store, the embedder and the profile.
        given: keyword of the API -> value, for the shared options that were given.
        as_json: whether to print JSON.
    """

    options: Globals
    given: dict[str, Any]
    as_json: bool

    def engine(self, *, create: bool = False) -> Verbs:
        """Open the store or server; only a command that stores memories may `create` the store."""
        import salience
        from salience import compose
        from salience.rank import profiles

        profile = None if self.options.profile is None else profiles.load(self.options.profile)
        if create:
            compose.require_folder(self.options.store)
        return salience.connect(self.options.store, embedder=self.options.embedder, profile=profile, create=create)

    def local_engine(self) -> Engine:
        """Open the store, created if it is missing; the URL of a server is refused."""
        from salience import compose
        from salience.rank import profiles

        profile = profiles.load(self.options.profile or compose.SALIENCE)
        compose.require_folder(self.options.store)
        return compose.local(self.options.store, embedder=self.options.embedder, profile=profile)


def is_local(memory: Verbs) -> TypeGuard[Engine]:
    """Return whether the verbs run in this process, not on a server."""
    from salience.engine import Engine

    return isinstance(memory, Engine)


def now(memory: Verbs) -> datetime:
    """Return the current time by the engine's clock, or this machine's for a client."""
    return memory.services.clock() if is_local(memory) else datetime.now(UTC)


# --- Values -----------------------------------------------------------------------------------------------------------


def from_stdin(content: str | None) -> str | None:
    """Return `content`, or standard input without its last line break if it is `-`."""
    if content != STDIN:
        return content
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="strict")  # in the locale C, Python reads other bytes as lone surrogates
    try:
        return sys.stdin.read().removesuffix("\n")
    except UnicodeDecodeError as error:
        problem, remedy = f"is not {error.encoding}", f"Give text in {error.encoding}."
        raise InputError("content", Words("standard input"), remedy, problem) from None


def _json(name: str, written: str) -> Any:
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        remedy = 'Write an object such as {"page": 7}.'
        raise InputError(name, Words("text that is not JSON"), remedy, "is not JSON") from None


def _weights(name: str, written: list[str]) -> dict[str, float]:
    """Parse SIGNAL=NUMBER."""
    found = {}
    for text in written:
        signal, _, number = text.partition("=")
        try:
            found[signal] = float(number)
        except ValueError:
            raise InputError(name, text, "Write SIGNAL=NUMBER, such as recency=0.4.") from None
    return found


def instant(name: str, text: str, current: datetime | None = None) -> datetime:
    """Return the aware datetime of a text; local time unless it has an offset. The arguments are those of the check."""
    return checks.instant(name, text, now=current, zone=None)


def _coordinate(_: str, written: str) -> Any:
    return ANY if written == ANY.value else written


# --- Shared options ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Option:
    """An option that commands share: its type for Typer, and a function from its keyword and text to its value."""

    type: Any
    parse: Callable[[str, Any], Any] | None = None


Complete = Callable[[str], list[str]]


def names_in(module: str, constant: str) -> Complete:
    """Return a completion for shells: the names in a constant of a module, which is imported when a shell asks."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in getattr(import_module(module), constant) if name.startswith(incomplete)]

    return complete


PROFILES: Final = names_in("salience.rank.profiles", "NAMES")
EMBEDDERS: Final = names_in("salience.models.registry", "EMBEDDERS")
KINDS: Final = names_in("salience.records.memory", "KINDS")
TIERS: Final = names_in("salience.records.memory", "TIERS")
CHANGES: Final = names_in("salience.records.memory", "CHANGES")
RIGHTS: Final = names_in("salience.records.access", "RIGHTS")
SOURCES: Final = names_in("salience.transfer.importers", "SOURCES")
CLIENTS: Final = names_in("salience.server.mcp.install", "CLIENTS")


def option(
    kind: Any, flag: str, metavar: str | None, about: str, parse: Callable[[str, Any], Any] | None = None,
    panel: str | None = None, complete: Complete | None = None,
) -> Option:  # fmt: skip
    """Return an option that may be left out; then the verb's own default applies."""
    given = typer.Option(flag, metavar=metavar, help=about, rich_help_panel=panel, autocompletion=complete)
    return Option(Annotated[bool if kind is bool else kind | None, given], parse)


FLAGS: Final = {
    "environment": "--environment", "project": "--project", "user_id": "--user", "agent_id": "--agent",
}  # fmt: skip
"""Keyword of a coordinate -> its option."""
_SPELT: Final = {
    **FLAGS, "session_id": "--session", "tags": "--tag", "kinds": "--kind", "tiers": "--tier", "entities": "--entity",
    "sessions": "--from-session", "fact_keys": "--fact-key", "changed_by": "--by", "budget_tokens": "--budget",
    "memory_id": "--memory", "source": "--from", "ids": "--id", "words": "--word", "statuses": "--status",
    "fields": "--field", "projects": "--own-project", "users": "--own-user", "agents": "--own-agent",
}  # fmt: skip
"""Argument -> its option, if that is not the name with hyphens."""
_METAVARS: Final = {
    "kind": "KIND", "kinds": "KIND", "tags": "TAG", "tier": "TIER", "tiers": "TIER", "memory_type": "TIER",
    "fact_key": "KEY", "fact_keys": "KEY", "key": "KEY", "reason": "TEXT", "query": "TEXT", "changed_by": "AUTHOR",
    "source": "SOURCE", "budget_tokens": "TOKENS", "deadline_ms": "MS", "cursor": "CURSOR", "id": "ID",
}  # fmt: skip
"""Argument -> what its option takes, if its type does not say it."""
_COMPLETIONS: Final = {
    "profile": PROFILES, "kind": KINDS, "kinds": KINDS, "tier": TIERS, "tiers": TIERS, "memory_type": TIERS,
    "change": CHANGES, "source": SOURCES,
}  # fmt: skip
_TIMES: Final = ". Such as 2026-05-01, 2d, yesterday, 'last week' or ISO 8601; local time unless it has an offset"


def options(verb: str, without: str = "") -> dict[str, Option]:
    """Return an option for each argument of a verb but those of `without`, which the command takes itself."""
    taken = {*without.split(), *(name for name, one in ALL[verb].arguments.items() if one.json is None)}
    return {name: _option(one) for name, one in ALL[verb].arguments.items() if name not in taken}


def flag(name: str) -> str:
    """Return the option of an argument."""
    return _SPELT.get(name, f"--{name.replace('_', '-')}")


def _option(one: Argument) -> Option:
    """Return an argument as an option, with its sentence as help."""
    json, text = one.json or Json(str), one.description.replace("; default:", ". Default:").replace("`", "")
    kind, metavar = json.type, {int: "N", float: "NUMBER", bool: None}.get(json.type, "NAME")
    parse: Callable[[str, Any], Any] | None = None
    if one.name in FLAGS:
        parse, text = _coordinate, text.replace("; * for any", "") + "; '*' for any"
    elif one.name == "scope":
        kind, metavar = Literal["global", "project"], None
    elif json.items is not None:
        kind, metavar, text = list[str], "ID" if json.items is ID else metavar, f"{text}; may be repeated"
    elif json is INSTANT:
        kind, metavar, parse, text = str, "TIME", instant, re.sub(r" \(.*\)", "", text) + _TIMES
    elif json in (METADATA, WHERE):
        kind, metavar, parse = str, "JSON", _json
    elif json is WEIGHTS:
        kind, metavar, parse, text = list[str], "SIGNAL=NUMBER", _weights, f"{text}; may be repeated"
    elif json in (TTL, ID):
        kind, metavar = str, "TIME" if json is TTL else "ID"
    panel = "Scope" if one.name in (*FLAGS, "session_id", "scope") else None
    about = f"{text[0].upper()}{text[1:]}."
    return option(
        kind, flag(one.name), _METAVARS.get(one.name, metavar), about, parse, panel, _COMPLETIONS.get(one.name)
    )


Id = Annotated[str, typer.Argument(metavar="ID", help="Id of a memory, or its last 8 characters.")]
QueryText = Annotated[str, typer.Argument(metavar="QUERY", help="The question.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]
Store = Annotated[
    str | None,
    typer.Option(
        metavar="TARGET", help="File, database or server URL. Default: SALIENCE_URL, else a file in the data directory."
    ),
]
EmbedderName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        autocompletion=EMBEDDERS,
        help="Embedding model: minilm, static, bge, multilingual, fastembed or openai. Default: SALIENCE_EMBEDDER, "
        "else minilm.",
    ),
]
ProfileName = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Ranking profile: a name or the path of a TOML file.", autocompletion=PROFILES),
]


def _hidden(kind: Any) -> Any:
    """Return the type of an option that the help leaves out."""
    plain, shown = get_args(kind)
    hidden = copy(shown)
    hidden.hidden = True
    return Annotated[plain, hidden]


ANYWHERE: Final = {"store": _hidden(Store), "embedder": _hidden(EmbedderName), "profile": _hidden(ProfileName)}
"""Option that may also stand after the command -> its type there."""
EPILOG: Final = "Every command also takes --store, --embedder and --profile: see salience --help."
TOOLS_HELP: Final = "MCP tools to offer: default, all, or comma-separated names."


# --- Commands ---------------------------------------------------------------------------------------------------------


def command(
    app: typer.Typer, name: str | None = None, *, options: Mapping[str, Option] | None = None, json: bool = True
) -> Callable[[Command], Command]:
    """Register a function of a `Call` and of its own options; the `Answer` that it returns is printed.

    Args:
        app: where to register.
        name: of the command; None: the function's.
        options: shared options, whose values are in `Call.given`; keyword of the API -> option.
        json: whether the command takes `--json`.
    """
    shared = dict(options or {})

    def register(function: Command) -> Command:
        def run(ctx: typer.Context, **values: Any) -> None:
            as_json = values.pop("json", False)
            after = {name: text for name in own if (text := values.pop(name)) is not None}
            ctx.find_root().obj = chosen = replace(ctx.obj, **after)  # of the root, for the message of an error
            texts = {name: values.pop(name) for name in shared}
            try:
                given = {
                    name: shared[name].parse(name, text) if shared[name].parse else text  # type: ignore[misc]
                    for name, text in texts.items()
                    if text is not None and text is not False and text != []
                }
                if "profile" in shared and chosen.profile is not None:
                    given.setdefault("profile", chosen.profile)
                answer = function(
                    Call(chosen, given, as_json), **{name: _expanded(one) for name, one in values.items()}
                )
            except InputError as error:
                raise _as_option(error, ctx) from None
            if answer is not None:
                show(answer, as_json)
                if answer.code:
                    raise typer.Exit(answer.code)

        keyword, parameters = inspect.Parameter.KEYWORD_ONLY, inspect.signature(function, eval_str=True).parameters
        taken = [item.replace(kind=keyword) for item in list(parameters.values())[1:]]
        own = [name for name in ANYWHERE if name not in (*shared, *parameters)]
        taken += [inspect.Parameter(name, keyword, default=None, annotation=ANYWHERE[name]) for name in own]
        for shared_name, one in shared.items():
            default = False if one.type.__origin__ is bool else None
            taken.append(inspect.Parameter(shared_name, keyword, default=default, annotation=one.type))
        if json:
            printing = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
            taken.append(inspect.Parameter("json", keyword, default=False, annotation=printing))
        context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        run.__signature__ = inspect.Signature([context, *taken])  # type: ignore[attr-defined]
        run.__name__ = function.__name__
        app.command(name, help=unwrapped(function.__doc__ or ""), epilog=EPILOG)(run)
        return function

    return register


def _expanded(value: Any) -> Any:
    """Return paths with the home directory for ~, which a shell leaves in --output=~/file; other values as they are."""
    if isinstance(value, list):
        return [_expanded(one) for one in value]
    if not isinstance(value, Path):
        return value
    return checks.path("file", value)


def _is_given(name: str, ctx: typer.Context) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _as_option(error: InputError, ctx: typer.Context) -> InputError:
    """Return an error with its argument as the option that was given: `tags[1]` as --tag, `where.a` as --where.a."""
    found = re.match(r"(\w+)(\[\d+\])?", error.field)
    for one in ctx.command.params:
        if found and one.name == found[1] and one.opts[0].startswith("--") and _is_given(one.name, ctx):
            return error.at(one.opts[0] + error.field[found.end() :])
    return error


def command_group(about: str) -> typer.Typer:
    """Return an empty group of commands, which shows its help when no command is given."""

    def alone(ctx: typer.Context) -> None:
        if ctx.invoked_subcommand is None:
            typer.echo(ctx.get_help())

    return typer.Typer(help=about, callback=alone, invoke_without_command=True)


def unwrapped(text: str) -> str:
    """Return `text` with each paragraph on one line, for help as wide as the terminal."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))
