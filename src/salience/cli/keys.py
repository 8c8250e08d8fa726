"""Commands on the API keys of a server: create, list, revoke."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from salience.cli.options import FLAGS, RIGHTS, Call, command, command_group, option
from salience.cli.output import Answer, entries, is_narrow, one_line, sanitize, table
from salience.records import ApiKey, checks

app = typer.Typer()
group = command_group("Create, list and revoke the API keys of a server.")
app.add_typer(group, name="keys")
BOUNDS: Final = {name: option(str, flag, "NAME", f"Limit the key to this {flag[2:]}.") for name, flag in FLAGS.items()}


@command(group, options=BOUNDS)
def create(
    call: Call,
    rights: Annotated[
        list[str] | None,
        typer.Option("--right", metavar="RIGHT", help="read, write or admin; may be repeated.", autocompletion=RIGHTS),
    ] = None,
    tenant: Annotated[str | None, typer.Option(metavar="NAME", help="Tenant. Default: the setting `tenant`.")] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="Lifetime: 24h, 90d, 2w. Default: until it is revoked.")
    ] = None,
    note: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A note, such as the owner; shown in the list.")
    ] = None,
) -> Answer:
    """Create a key, and print its token once.

    Only a digest of the token is stored. A pipe receives the token alone. `admin` includes the other rights; `write`
    does not include `read`. A key limited to a coordinate cannot use another value of it.
    """
    from rich.text import Text

    from salience import compose, settings
    from salience.server import auth as access

    now = datetime.now(UTC)
    until = None if expires is None else now + checks.duration("expires", expires)
    token, key = access.create_key(tenant or settings.load().tenant, rights or (), call.given, until, note, now)
    with closing(compose.keyring(call.options.store)) as keyring:
        keyring.add(key)
    shown = f"{sanitize(token)}\n\nThe token is shown only once: keep it where secrets are kept."
    return Answer({"token": token, **_fields(key, now)}, [token], Text(shown))


@command(group, "list")
def list_(
    call: Call, tenant: Annotated[str | None, typer.Option(metavar="NAME", help="Only keys of this tenant.")] = None
) -> Answer:
    """List the keys, revoked and expired ones too."""
    from rich.table import Column

    from salience import keywords

    with closing(_keyring(call)) as keyring:
        keys, now = keyring.list(tenant), datetime.now(UTC)
    heads = ("tenant", "rights", "bound", "status", "created", "expires", "note")
    shown = table(Column("key", no_wrap=True), *(Column(head, overflow="fold") for head in heads))
    lines, stacked = [], []
    for key in keys:
        bound = " ".join(f"{keywords.SHORT.get(name, name)}:{value}" for name, value in key.bound.items()) or "-"
        created = key.created_at.isoformat(timespec="seconds")
        expires = "never" if key.expires_at is None else key.expires_at.isoformat(timespec="seconds")
        values = (key.prefix, key.tenant, ",".join(key.rights), bound, key.status(now), created, expires)
        cells = [one_line(cell) for cell in (*values, key.note or "-")]
        lines.append("\t".join(cells))
        shown.add_row(*cells, style="" if key.status(now) == "live" else "dim")
        stacked.append((cells[:5], (f"created {created}, expires {expires}", *([cells[7]] if key.note else []))))
    view = (entries(stacked) if is_narrow() else shown) if keys else None
    return Answer([_fields(key, now) for key in keys], lines or ["no keys"], view)


@command(group)
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
