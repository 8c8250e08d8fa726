"""Commands on the API keys of a server: create, list, revoke."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from salience import keywords
from salience.cli.options import Call, command
from salience.cli.output import Answer, one_line, sanitize
from salience.records import ApiKey, checks

app = typer.Typer()
group = typer.Typer(help="Create, list and revoke the API keys of a server.", no_args_is_help=False)
app.add_typer(group, name="keys")


def _bound(flag: str, what: str) -> Any:
    return Annotated[str | None, typer.Option(flag, metavar="NAME", help=f"Limit the key to this {what}.")]


@command(group, scope=())
def create(
    call: Call,
    rights: Annotated[
        list[str] | None, typer.Option("--right", metavar="RIGHT", help="read, write or admin; may be repeated.")
    ] = None,
    tenant: Annotated[str | None, typer.Option(metavar="NAME", help="Tenant. Default: the setting `tenant`.")] = None,
    environment: _bound("--environment", "environment") = None,  # type: ignore[valid-type]
    project: _bound("--project", "project") = None,  # type: ignore[valid-type]
    user: _bound("--user", "user") = None,  # type: ignore[valid-type]
    agent: _bound("--agent", "agent") = None,  # type: ignore[valid-type]
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="Lifetime: 90d, 24h. Default: until it is revoked.")
    ] = None,
    note: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A note, such as the owner; shown in the list.")
    ] = None,
) -> Answer:
    """Create a key, and print its token once.

    Only a digest of the token is stored. A pipe receives the token alone. `admin` includes the other rights; `write`
    does not include `read`. A key limited to a coordinate cannot use another value of it.
    """
    from salience import compose, settings
    from salience.server import auth as access

    now = datetime.now(UTC)
    until = None if expires is None else now + checks.ttl("expires", expires)
    given = {"environment": environment, "project": project, "user_id": user, "agent_id": agent}
    bound = {name: value for name, value in given.items() if value is not None}
    token, key = access.create_key(tenant or settings.load().tenant, rights or (), bound, until, note, now)
    with closing(compose.keyring(call.options.store)) as keyring:
        keyring.add(key)
    shown = f"{sanitize(token)}\n\nThe token is shown only once: keep it where secrets are kept."
    return Answer({"token": token, **_fields(key, now)}, [token], Text(shown))


@command(group, "list", scope=())
def list_(
    call: Call, tenant: Annotated[str | None, typer.Option(metavar="NAME", help="Only keys of this tenant.")] = None
) -> Answer:
    """List the keys, revoked and expired ones too."""
    with closing(_keyring(call)) as keyring:
        keys, now = keyring.list(tenant), datetime.now(UTC)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for head in ("key", "tenant", "rights", "bound", "status", "created", "expires", "note"):
        table.add_column(head, no_wrap=head == "key", overflow="fold")
    lines = []
    for key in keys:
        lines.append("\t".join(_cells(key, now)))
        table.add_row(*_cells(key, now), style="" if key.status(now) == "live" else "dim")
    return Answer([_fields(key, now) for key in keys], lines or ["no keys"], table)


@command(group, scope=())
def revoke(
    call: Call, prefix: Annotated[str, typer.Argument(metavar="KEY", help="Prefix of the key, as shown by list.")]
) -> Answer:
    """Revoke a key on every server of the store, at once."""
    from salience.server import auth as access

    now = datetime.now(UTC)
    with closing(_keyring(call)) as keyring:
        key = keyring.revoke(access.key_prefix(prefix), now)
    return Answer(_fields(key, now), [f"revoked {key.prefix} of {one_line(key.tenant)}"])


def _keyring(call: Call) -> Any:
    """Open the keys of an existing store."""
    from salience import compose

    compose.require_store(call.options.store)
    return compose.keyring(call.options.store)


def _fields(key: ApiKey, now: datetime) -> dict[str, object]:
    """Return a key as JSON values, without its digest."""
    names = ("prefix", "tenant", "rights", "bound", "note", "created_at", "expires_at", "revoked_at")
    return {**{name: getattr(key, name) for name in names}, "status": key.status(now)}


def _cells(key: ApiKey, now: datetime) -> tuple[str, ...]:
    bound = " ".join(f"{keywords.SHORT.get(name, name)}:{value}" for name, value in key.bound.items()) or "-"
    created = key.created_at.isoformat(timespec="seconds")
    expires = "never" if key.expires_at is None else key.expires_at.isoformat(timespec="seconds")
    cells = (key.prefix, key.tenant, ",".join(key.rights), bound, key.status(now), created, expires, key.note or "-")
    return tuple(map(one_line, cells))
