"""Options that several commands share, and the decorator that registers a command."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from salience.cli.output import Answer, show
from salience.errors import InputError, Words

if TYPE_CHECKING:
    from salience.engine import Engine
    from salience.verbs import Verbs

STDIN: Final = "-"
Command = Callable[..., "Answer | None"]


@dataclass(frozen=True, slots=True)
class Globals:
    """The options before the command, None if not given; `tools` is an option of the group `mcp`."""

    store: str | None
    embedder: str | None
    profile: str | None
    tools: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a command.

    Attributes:
        options: the options before the command.
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


def now(memory: Verbs) -> datetime:
    """Return the current time by the engine's clock, or this machine's for a client."""
    services = getattr(memory, "services", None)
    return services.clock() if services is not None else datetime.now(UTC)


# --- Values -----------------------------------------------------------------------------------------------------------


def from_stdin(content: str | None) -> str | None:
    """Return `content`, or standard input without its last line break if it is `-`."""
    if content != STDIN:
        return content
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
    from salience.records import checks

    return checks.instant(name, text, now=current, zone=None)


def _coordinate(_: str, written: str) -> Any:
    from salience.records import ANY

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


_TEXTS: Final = list[str]
_TIMES: Final = "2026-05-01, 2d, yesterday, 'last week' or ISO 8601; local time unless it has an offset."
FLAGS: Final = {
    "environment": "--environment", "project": "--project", "user_id": "--user", "agent_id": "--agent",
}  # fmt: skip
"""Keyword of a coordinate -> its option."""
SCOPE: Final[dict[str, Option]] = {
    name: option(str, flag, "NAME", f"{flag[2:].capitalize()}{default}; '*' for any.", _coordinate, "Scope")
    for (name, flag), default in zip(FLAGS.items(), (" (default: default)", "", "", ""), strict=True)
} | {
    "session_id": option(str, "--session", "NAME", "Session.", panel="Scope"),
    "scope": option(
        Literal["global", "project"], "--scope", None, "Only memories without a project, or only the project's.",
        panel="Scope",
    ),
}  # fmt: skip
CALLER: Final = {name: one for name, one in SCOPE.items() if name != "session_id"}
RECALL: Final[dict[str, Option]] = {
    "limit": option(int, "--limit", "N", "Maximum number of hits. Default: the profile's limit."),
    "profile": option(
        str,
        "--profile",
        "NAME",
        "Ranking profile: a name or the path of a TOML file.",
        complete=PROFILES,
    ),
    "min_score": option(float, "--min-score", "NUMBER", "Minimum score."),
    "tags": option(_TEXTS, "--tag", "TAG", "Only memories with this tag; may be repeated."),
    "kinds": option(_TEXTS, "--kind", "KIND", "Only memories of this kind; may be repeated.", complete=KINDS),
    "tiers": option(
        _TEXTS, "--tier", "TIER", "Only memories in this tier: working, episodic, semantic.", complete=TIERS
    ),
    "sessions": option(_TEXTS, "--from-session", "NAME", "Only memories from this session; may be repeated."),
    "since": option(str, "--since", "TIME", f"Created at or after: {_TIMES} A day means its start.", instant),
    "until": option(str, "--until", "TIME", "Created before; written as for --since.", instant),
    "as_of": option(str, "--as-of", "TIME", f"Answer from the memories stored at this earlier time: {_TIMES}", instant),
    "now": option(str, "--now", "TIME", f"Take this as the current time: {_TIMES}", instant),
    "deadline_ms": option(float, "--deadline-ms", "MS", "Skip an embedding or a reranking that takes longer."),
    "weights": option(_TEXTS, "--weights", "SIGNAL=NUMBER", "Weight of a signal; may be repeated.", _weights),
    "dry_run": option(bool, "--dry-run", None, "Do not count this as an access."),
}
"""Options of recall; other commands that read take some of them."""
FIELDS: Final[dict[str, Option]] = {
    "kind": option(str, "--kind", "KIND", "fact, rule, decision, ... or your own.", complete=KINDS),
    "importance": option(float, "--importance", "NUMBER", "0 to 1. Default: estimated from the text."),
    "weight": option(float, "--weight", "NUMBER", "Confidence, 0.1 to 1."),
    "tags": option(_TEXTS, "--tag", "TAG", "A tag; may be repeated."),
    "entities": option(_TEXTS, "--entity", "NAME", "A named entity; may be repeated. Default: found in the text."),
    "fact_key": option(str, "--fact-key", "KEY", "Identity of the fact, such as user.theme."),
    "ttl": option(str, "--ttl", "TIME", "Time to live: 24h, 7d, 2w, or seconds."),
    "tier": option(str, "--tier", "TIER", "working, episodic or semantic.", complete=TIERS),
    "metadata": option(str, "--metadata", "JSON", "A JSON object to store with it.", _json),
    "key": option(str, "--key", "KEY", "Idempotency key: a second call with it changes nothing."),
}
"""Fields of a memory that is stored or updated."""
REASON: Final = {"reason": option(str, "--reason", "TEXT", "Reason of the change, kept in the history.")}
IF_VERSION: Final = {"if_version": option(int, "--if-version", "N", "Only if the memory is at this version.")}
KEY: Final = {"key": FIELDS["key"]}
DRY_RUN: Final = {"dry_run": option(bool, "--dry-run", None, "Show what would change, and change nothing.")}


def pick(options: Mapping[str, Option], names: str) -> dict[str, Option]:
    """Return some of the options, by their names in one text."""
    return {name: options[name] for name in names.split()}


Id = Annotated[str, typer.Argument(metavar="ID", help="Id of a memory, or its last 8 characters.")]
QueryText = Annotated[str, typer.Argument(metavar="QUERY", help="The question.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]
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
            texts = {name: values.pop(name) for name in shared}
            given = {
                name: shared[name].parse(name, text) if shared[name].parse else text  # type: ignore[misc]
                for name, text in texts.items()
                if text is not None and text is not False and text != []
            }
            if "profile" in shared and ctx.obj.profile is not None:
                given.setdefault("profile", ctx.obj.profile)
            answer = function(Call(ctx.obj, given, as_json), **values)
            if answer is not None:
                show(answer, as_json)
                if answer.code:
                    raise typer.Exit(answer.code)

        keyword, parameters = inspect.Parameter.KEYWORD_ONLY, inspect.signature(function, eval_str=True).parameters
        taken = [item.replace(kind=keyword) for item in list(parameters.values())[1:]]
        for shared_name, one in shared.items():
            default = False if one.type.__origin__ is bool else None
            taken.append(inspect.Parameter(shared_name, keyword, default=default, annotation=one.type))
        if json:
            flag = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
            taken.append(inspect.Parameter("json", keyword, default=False, annotation=flag))
        context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        run.__signature__ = inspect.Signature([context, *taken])  # type: ignore[attr-defined]
        run.__name__ = function.__name__
        app.command(name, help=unwrapped(function.__doc__ or ""))(run)
        return function

    return register


def command_group(about: str) -> typer.Typer:
    """Return an empty group of commands, which shows its help when no command is given."""

    def alone(ctx: typer.Context) -> None:
        if ctx.invoked_subcommand is None:
            typer.echo(ctx.get_help())

    return typer.Typer(help=about, callback=alone, invoke_without_command=True)


def unwrapped(text: str) -> str:
    """Return `text` with each paragraph on one line, for help as wide as the terminal."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))
