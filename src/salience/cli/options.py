"""Options that several commands share, and the decorator that registers a command."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import typer

from salience.cli.output import Answer, show
from salience.errors import InputError, Words
from salience.records import ANY

if TYPE_CHECKING:
    from salience.client import Client
    from salience.engine import Engine

STDIN: Final = "-"
Parsed = TypeVar("Parsed")
Command = Callable[..., "Answer | None"]


@dataclass(frozen=True, slots=True)
class Globals:
    """The options before the command, None if not given; `tools` is an option of the group `mcp`."""

    store: str | None
    embedder: str
    profile: str | None
    tools: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a command.

    Attributes:
        options: the options before the command.
        where: the scope keywords that were given.
        as_json: whether to print JSON.
    """

    options: Globals
    where: dict[str, Any]
    as_json: bool

    def engine(self, *, create: bool = False) -> Engine | Client:
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

    def profile(self, chosen: str | None) -> str | None:
        """Return the profile given after the command, else the one before it."""
        return chosen or self.options.profile


def now(memory: Engine | Client) -> datetime:
    """Return the current time by the engine's clock, or this machine's for a client."""
    services = getattr(memory, "services", None)
    return services.clock() if services is not None else datetime.now(UTC)


def _coordinate(flag: str, what: str) -> Any:
    return Annotated[
        str | None, typer.Option(flag, metavar="NAME", help=f"{what}; '*' for any.", rich_help_panel="Scope")
    ]


SCOPE: Final[dict[str, Any]] = {
    "environment": _coordinate("--environment", "Environment (default: default)"),
    "project": _coordinate("--project", "Project"),
    "user_id": _coordinate("--user", "User"),
    "agent_id": _coordinate("--agent", "Agent"),
    "session_id": Annotated[
        str | None, typer.Option("--session", metavar="NAME", help="Session.", rich_help_panel="Scope")
    ],
    "scope": Annotated[
        Literal["global", "project"] | None,
        typer.Option(
            "--scope", help="Only memories without a project, or only the project's.", rich_help_panel="Scope"
        ),
    ],
}
"""Scope keyword of the API -> option."""
CALLER: Final = tuple(name for name in SCOPE if name != "session_id")
JSON: Final = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def command(
    app: typer.Typer, name: str | None = None, *, scope: tuple[str, ...] | None = tuple(SCOPE)
) -> Callable[[Command], Command]:
    """Register a function from a `Call` and its own options to an `Answer`, which is then printed.

    Args:
        app: where to register.
        name: of the command; None: the function's.
        scope: scope keywords whose options the command takes besides `--json`; None: neither.
    """

    def register(function: Command) -> Command:
        def run(ctx: typer.Context, **given: Any) -> None:
            as_json = given.pop("json", False)
            named = {keyword: given.pop(keyword) for keyword in scope or ()}
            where = {
                keyword: ANY if value == ANY.value and keyword not in ("session_id", "scope") else value
                for keyword, value in named.items()
                if value is not None
            }
            answer = function(Call(ctx.obj, where, as_json), **given)
            if answer is not None:
                show(answer, as_json)
                if answer.code:
                    raise typer.Exit(answer.code)

        parameter, keyword_only = inspect.Parameter, inspect.Parameter.KEYWORD_ONLY
        own = [
            item.replace(kind=keyword_only) for item in inspect.signature(function, eval_str=True).parameters.values()
        ]
        shared = [parameter(keyword, keyword_only, default=None, annotation=SCOPE[keyword]) for keyword in scope or ()]
        if scope is not None:
            shared.append(parameter("json", keyword_only, default=False, annotation=JSON))
        context = parameter("ctx", parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        run.__signature__ = inspect.Signature([context, *own[1:], *shared])  # type: ignore[attr-defined]
        run.__name__ = function.__name__
        app.command(name, help=unwrapped(function.__doc__ or ""))(run)
        return function

    return register


def unwrapped(text: str) -> str:
    """Return `text` with each paragraph on one line, for help as wide as the terminal."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))


Id = Annotated[str, typer.Argument(metavar="ID", help="Id of a memory, or its last 8 characters.")]
QueryText = Annotated[str, typer.Argument(metavar="QUERY", help="The question.")]
Limit = Annotated[
    int | None, typer.Option("--limit", metavar="N", help="Maximum number of hits. Default: the profile's limit.")
]
Profile = Annotated[
    str | None, typer.Option("--profile", metavar="NAME", help="Ranking profile: a name or the path of a TOML file.")
]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="Only memories with this tag; may be repeated.")
]
Kinds = Annotated[
    list[str] | None, typer.Option("--kind", metavar="KIND", help="Only memories of this kind; may be repeated.")
]
Tiers = Annotated[
    list[str] | None,
    typer.Option("--tier", metavar="TIER", help="Only memories in this tier: working, episodic, semantic."),
]
FromSession = Annotated[
    list[str] | None,
    typer.Option("--from-session", metavar="NAME", help="Only memories from this session; may be repeated."),
]
_TIMES = "2026-05-01, 2d, yesterday, 'last week' or ISO 8601; local time unless it has an offset."
Since = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help=f"Created at or after: {_TIMES} A day means its start.")
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Created before; written as for --since.")]
MinScore = Annotated[float | None, typer.Option("--min-score", metavar="NUMBER", help="Minimum score.")]
Now = Annotated[str | None, typer.Option("--now", metavar="TIME", help=f"Take this as the current time: {_TIMES}")]
AsOf = Annotated[
    str | None,
    typer.Option("--as-of", metavar="TIME", help=f"Answer from what was stored at this earlier time: {_TIMES}"),
]
Deadline = Annotated[
    float | None,
    typer.Option("--deadline-ms", metavar="MS", help="Skip an embedding or a reranking that takes longer."),
]
Weights = Annotated[
    list[str] | None, typer.Option("--weights", metavar="SIGNAL=NUMBER", help="Weight of a signal; may be repeated.")
]
Dry = Annotated[bool, typer.Option("--dry-run", help="Do not count this as an access.")]

Kind = Annotated[str | None, typer.Option("--kind", metavar="KIND", help="fact, rule, decision, ... or your own.")]
Importance = Annotated[
    float | None, typer.Option("--importance", metavar="NUMBER", help="0 to 1. Default: estimated from the text.")
]
Weight = Annotated[float | None, typer.Option("--weight", metavar="NUMBER", help="Confidence, 0.1 to 1.")]
Entities = Annotated[
    list[str] | None,
    typer.Option("--entity", metavar="NAME", help="A named entity; may be repeated. Default: found in the text."),
]
NewTags = Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="A tag; may be repeated.")]
FactKey = Annotated[
    str | None, typer.Option("--fact-key", metavar="KEY", help="Identity of the fact, such as user.theme.")
]
Ttl = Annotated[str | None, typer.Option("--ttl", metavar="TIME", help="Time to live: 24h, 7d, or seconds.")]
Tier = Annotated[str | None, typer.Option("--tier", metavar="TIER", help="working, episodic or semantic.")]
Reason = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Reason of the change, kept in the history.")
]
IfVersion = Annotated[
    int | None, typer.Option("--if-version", metavar="N", help="Only if the memory is at this version.")
]
RequestKey = Annotated[
    str | None, typer.Option("--key", metavar="KEY", help="Idempotency key: a second call with it changes nothing.")
]
Metadata = Annotated[str | None, typer.Option("--metadata", metavar="JSON", help="A JSON object to store with it.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]
TOOLS_HELP = "MCP tools to offer: default, all, or comma-separated names."


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None; the verb's own defaults apply to the others."""
    return {name: value for name, value in fields.items() if value is not None}


def from_stdin(content: str | None) -> str | None:
    """Return `content`, or standard input without its last line break if it is `-`.

    Raises:
        InputError: standard input is not text in its encoding.
    """
    if content != STDIN:
        return content
    try:
        return sys.stdin.read().removesuffix("\n")
    except UnicodeDecodeError as error:
        problem, remedy = f"is not {error.encoding}", f"Give text in {error.encoding}."
        raise InputError("content", Words("standard input"), remedy, problem) from None


def json_object(written: str | None) -> Any:
    """Return the JSON value of an option; the engine checks its type.

    Raises:
        InputError: invalid JSON.
    """
    try:
        return None if written is None else json.loads(written)
    except (ValueError, RecursionError):
        remedy = 'Write an object such as {"page": 7}.'
        raise InputError("metadata", Words("text that is not JSON"), remedy, "is not JSON") from None


def weights(written: Sequence[str] | None) -> dict[str, float]:
    """Parse SIGNAL=NUMBER options.

    Raises:
        InputError: another form.
    """
    found = {}
    for text in written or ():
        name, _, number = text.partition("=")
        try:
            found[name] = float(number)
        except ValueError:
            raise InputError("weights", text, "Write SIGNAL=NUMBER, such as recency=0.4.") from None
    return found


def listed(option: str, written: str, parse: Callable[[str], Parsed]) -> list[Parsed]:
    """Parse comma-separated values, without duplicates.

    Raises:
        InputError: no value, or one that cannot be parsed.
    """
    try:
        found = list(dict.fromkeys(parse(part.strip()) for part in written.split(",") if part.strip()))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(option, written, "Give whole numbers with commas between them.") from None
    if not found:
        raise InputError(option, written, "Give at least one; several with commas between them.")
    return found


_REMEDY: Final = (
    "Give a date (2026-05-01, 2026-05), a length of time before now (2d, 12h), today, yesterday, 'last week', "
    "or ISO 8601 (2026-05-01T09:30, with an offset or in local time)."
)
_AGO: Final = re.compile(r"(\d+(?:\.\d+)?) ?([smhdw])(?: ago)?", re.ASCII)
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PERIOD: Final = re.compile(r"(\d{4})(?:-(\d{2}))?", re.ASCII)
_DAY: Final = timedelta(days=1)
_DAYS: Final[Mapping[str, Callable[[date], date]]] = {
    "today": lambda today: today,
    "yesterday": lambda today: today - _DAY,
    "this week": lambda today: today - today.weekday() * _DAY,
    "last week": lambda today: today - (today.weekday() + 7) * _DAY,
    "this month": lambda today: today.replace(day=1),
    "last month": lambda today: (today.replace(day=1) - _DAY).replace(day=1),
    "this year": lambda today: today.replace(month=1, day=1),
    "last year": lambda today: today.replace(year=today.year - 1, month=1, day=1),
}
"""Name of a period -> its first day; weeks begin on Monday."""


def instants(**written: str | None) -> dict[str, Any]:
    """Parse the time options that were given.

    Raises:
        InputError: a text that is not a time.
    """
    current = datetime.now(UTC)
    return {name: instant(name, text, current) for name, text in written.items() if text is not None}


def instant(field: str, text: str, current: datetime) -> datetime:
    """Return the aware datetime of a text; local time unless it has an offset.

    A day, week, month or year means its first instant; a length of time, that long before `current`.

    Raises:
        InputError: a text that is not a time; names the `field`.
    """
    words = " ".join(text.lower().split())
    try:
        if words == "now":
            return current
        if first := _DAYS.get(words):
            return datetime.combine(first(current.astimezone().date()), time.min).astimezone()
        if ago := _AGO.fullmatch(words):
            return current - timedelta(seconds=float(ago[1]) * _UNITS[ago[2]])
        if period := _PERIOD.fullmatch(words):
            return datetime(int(period[1]), int(period[2] or 1), 1).astimezone()
        found = datetime.fromisoformat(text.strip())
        return found if found.utcoffset() is not None else found.astimezone()
    except (ValueError, OverflowError):
        raise InputError(field, text, _REMEDY) from None
