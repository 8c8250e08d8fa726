"""What every command starts from: the engine of the global options, the scope, and one way to register."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

import salience
from salience import compose
from salience.cli.screen import Answer, show
from salience.cli.surface import Globals, paragraphs
from salience.engine import Engine
from salience.rank import profiles
from salience.rank.profiles import ProfileLike
from salience.records import ANY

if TYPE_CHECKING:
    from salience.client import Client


@dataclass(frozen=True, slots=True)
class Call:
    """One command as it was called.

    Attributes:
        options: the options before the command.
        where: the scope keywords that were given; one that was not has the verb's own default.
        as_json: whether JSON is asked for.
    """

    options: Globals
    where: dict[str, Any]
    as_json: bool

    def engine(self, *, create: bool = False) -> Engine | Client:
        """Return the engine or client of the target that is named; a bad profile is told before a file is made.

        Only a command that stores memories is to `create` a store that does not exist, and never a folder that a user
        named.
        """
        profile = None if self.options.profile is None else profiles.load(self.options.profile)
        if create:
            compose.require_folder(self.options.store)
        return salience.connect(self.options.store, embedder=self.options.embedder, profile=profile, create=create)

    def store(self) -> Engine:
        """Return the engine on the store that the options name, made where there is none; a server's URL is refused."""
        profile = profiles.load(self.options.profile or compose.SALIENCE)
        compose.require_folder(self.options.store)
        return compose.local(self.options.store, embedder=self.options.embedder, profile=profile)

    def profile(self, chosen: str | None) -> ProfileLike | None:
        """Return the profile that the command names, else the one before it, else None for the verb's own."""
        return chosen or self.options.profile


def present(memory: Engine | Client) -> datetime:
    """Return the instant at which answers are looked at: an engine's, or that of this machine."""
    return memory.services.clock() if isinstance(memory, Engine) else datetime.now(UTC)


def _coordinate(flag: str, what: str) -> Any:
    return Annotated[
        str | None, typer.Option(flag, metavar="NAME", help=f"{what}; '*' for any.", rich_help_panel="Scope")
    ]


SCOPE: Final[dict[str, Any]] = {
    "environment": _coordinate("--environment", "Environment, matched exactly [default: default]"),
    "project": _coordinate("--project", "Project"),
    "user_id": _coordinate("--user", "User"),
    "agent_id": _coordinate("--agent", "Agent"),
    "session_id": Annotated[
        str | None, typer.Option("--session", metavar="NAME", help="Session.", rich_help_panel="Scope")
    ],
    "scope": Annotated[
        Literal["global", "project"] | None,
        typer.Option("--scope", help="Memories of no project, or of the project.", rich_help_panel="Scope"),
    ],
}
"""Scope keyword of the API -> option of the command line."""
CALLER: Final = tuple(name for name in SCOPE if name != "session_id")
JSON: Final = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Command = Callable[..., Answer]


def command(
    app: typer.Typer, name: str | None = None, *, scope: tuple[str, ...] = tuple(SCOPE)
) -> Callable[[Command], Command]:
    """Return a decorator that registers a function (Call, own options) -> Answer, and shows what it returns.

    Args:
        app: where to register.
        name: of the command; None for the function's.
        scope: the scope keywords that it takes.
    """

    def register(function: Command) -> Command:
        def run(ctx: typer.Context, **given: Any) -> None:
            as_json = given.pop("json")
            named = {keyword: given.pop(keyword) for keyword in scope}
            where = {
                keyword: ANY if value == ANY.value and keyword not in ("session_id", "scope") else value
                for keyword, value in named.items()
                if value is not None
            }
            show(function(Call(ctx.obj, where, as_json), **given), as_json)

        run.__name__ = function.__name__
        run.__signature__ = _signature(run, function, scope)  # type: ignore[attr-defined]
        app.command(name, help=paragraphs(function.__doc__ or ""))(run)
        return function

    return register


def _signature(run: Callable[..., None], function: Command, scope: tuple[str, ...]) -> inspect.Signature:
    """Return the context, the function's own parameters but the `Call`, then those that all commands share."""
    context = inspect.signature(run, eval_str=True).parameters["ctx"]
    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    shared = [_keyword(keyword, SCOPE[keyword], None) for keyword in scope] + [_keyword("json", JSON, False)]
    keywords = [item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in own]
    return inspect.Signature([context, *keywords, *shared])


def _keyword(name: str, annotation: Any, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
