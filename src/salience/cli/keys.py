"""Commands on the keys of a server: create, list, revoke."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer
from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from salience import compose, keywords, settings
from salience.cli.calls import Call, command
from salience.cli.screen import Answer
from salience.cli.signs import one_line, visible
from salience.cli.surface import app
from salience.records import ApiKey, checks
from salience.server import keys as access

group = typer.Typer(help="Make, list and take back the keys of a server.", no_args_is_help=False)
app.add_typer(group, name="keys")
NEVER: Final = "never"
NONE: Final = "-"
_HEADS: Final = ("key", "tenant", "rights", "bound", "status", "created", "expires", "note")


def _bound(flag: str, what: str) -> Any:
    return Annotated[str | None, typer.Option(flag, metavar="NAME", help=f"Bind it to this {what}.")]


@command(group, scope=())
def create(
    call: Call,
    rights: Annotated[
        list[str] | None, typer.Option("--right", metavar="RIGHT", help="read, write or admin; may be repeated.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose memories. Default: the setting `tenant`.")
    ] = None,
    environment: _bound("--environment", "environment") = None,  # type: ignore[valid-type]
    project: _bound("--project", "project") = None,  # type: ignore[valid-type]
    user: _bound("--user", "user") = None,  # type: ignore[valid-type]
    agent: _bound("--agent", "agent") = None,  # type: ignore[valid-type]
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="How long it holds: 90d, 24h. Default: until it is revoked.")
    ] = None,
    note: Annotated[str | None, typer.Option(metavar="TEXT", help="Whose it is; shown in the list.")] = None,
) -> Answer:
    """Make a key, and print its token, this once.

    What is kept is a digest, from which the token is not to be had. Into a pipe goes the token alone. `admin` holds
    both other rights; `write` does not hold `read`. A key that is bound may give that coordinate no other value.
    """
    now = datetime.now(UTC)
    until = None if expires is None else now + checks.ttl("expires", expires)
    given = {"environment": environment, "project": project, "user_id": user, "agent_id": agent}
    bound = {name: value for name, value in given.items() if value is not None}
    token, key = access.made(tenant or settings.load().tenant, rights or (), bound, until, note, now)
    with closing(compose.keyring(call.options.store)) as keyring:
        keyring.add(key)
    return Answer({"token": token, **fields(key, now)}, lambda: [token], lambda _: _shown(token))


@command(group, "list", scope=())
def list_(
    call: Call, tenant: Annotated[str | None, typer.Option(metavar="NAME", help="Of this tenant alone.")] = None
) -> Answer:
    """List the keys, those that hold no more too."""
    with closing(_there(call)) as keyring:
        keys, now = keyring.list(tenant), datetime.now(UTC)
    return Answer([fields(key, now) for key in keys], lambda: _lines(keys, now), lambda _: _table(keys, now))


@command(group, scope=())
def revoke(
    call: Call, prefix: Annotated[str, typer.Argument(metavar="KEY", help="Its prefix, as list shows it.")]
) -> Answer:
    """Take a key back; from now on it grants nothing, on every server of the store."""
    now = datetime.now(UTC)
    with closing(_there(call)) as keyring:
        key = keyring.revoke(access.prefix_of(prefix), now)
    return Answer(fields(key, now), lambda: [f"revoked {key.prefix} of {one_line(key.tenant)}"])


def _there(call: Call) -> Any:
    """Return the keys of a store that is there."""
    compose.require_store(call.options.store)
    return compose.keyring(call.options.store)


def fields(key: ApiKey, now: datetime) -> dict[str, object]:
    """Return a key as JSON values, without its digest."""
    names = ("prefix", "tenant", "rights", "bound", "note", "created_at", "expires_at", "revoked_at")
    return {**{name: getattr(key, name) for name in names}, "status": key.status(now)}


def cells(key: ApiKey, now: datetime) -> tuple[str, ...]:
    """Return a key as cells, in the order of the list's head."""
    bound = " ".join(f"{keywords.SHORT.get(name, name)}:{value}" for name, value in key.bound.items())
    expires = NEVER if key.expires_at is None else _instant(key.expires_at)
    told = (key.prefix, key.tenant, ",".join(key.rights), bound or NONE, key.status(now), _instant(key.created_at))
    return tuple(map(one_line, (*told, expires, key.note or NONE)))


def _instant(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _lines(keys: Sequence[ApiKey], now: datetime) -> Iterator[str]:
    yield from ("\t".join(cells(key, now)) for key in keys)
    if not keys:
        yield "no keys"


def _table(keys: Iterable[ApiKey], now: datetime) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for head in _HEADS:
        table.add_column(head, no_wrap=head == "key", overflow="fold")
    for key in keys:
        table.add_row(*cells(key, now), style="" if key.status(now) == "live" else "dim")
    return table


def _shown(token: str) -> RenderableType:
    return Text(f"{visible(token)}\n\nIt is shown this once: keep it where secrets are kept.")
