"""The command status, and the first steps that `salience` without a command prints."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import typer

from salience.cli.options import Call, Globals, command
from salience.cli.output import FAILED, Answer, age, for_store, grid, one_line, size, tsv
from salience.cli.output import status as spinner
from salience.errors import AccessError, InputError, MissingExtraError, SalienceError
from salience.records.answers import counted
from salience.verbs import Verbs

app = typer.Typer()
MOST: Final = 20_000
"""Memories up to which `status` finds out what upkeep would do, since that reads all of them."""
ANYONE: Final = "--user '*' --project '*' --agent '*'"
START: Final = """\
  salience remember "Alice prefers Python for backend work" --user alice
  salience recall "Which language does Alice use for backend work?" --user alice
  salience mcp install --client claude-code     # or codex, cursor, ...

See it on a sample first: salience demo. All commands: salience --help"""
NEXT: Final = f"""\
  salience{{store}} recall "QUESTION"    # with --user NAME, if it is theirs
  salience{{store}} list {ANYONE}
  salience{{store}} status               # size, model, upkeep, agents
  salience{{store}} ui                   # the dashboard, in the browser

All commands: salience --help"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What `salience status --json` prints; None: not known, such as the size of a server's store.

    Attributes:
        store: the file, the database, or the URL of a server; without a password.
        bytes: size of the file or database.
        database: name and version of the database.
        revision, head: revision of the tables, and of this version of Salience.
        embedder, dimension: the pinned model; None before the first memory.
        memories, pending, sessions, by_kind, by_tier: as in `stats`, over all scopes.
        forgotten: hidden memories: forgotten, expired or stale.
        upkeep_changed: the last change that upkeep made.
        due: step of upkeep -> memories or versions that it would change now; None for more than 20,000 memories.
        api_keys: number of API keys in a file, revoked ones included.
        mcp_clients: clients whose configuration has Salience.
        problems: what prevents the use of the store, with a remedy.
    """

    store: str
    bytes: int | None = None
    database: str | None = None
    revision: str | None = None
    head: str | None = None
    embedder: str | None = None
    dimension: int | None = None
    memories: int | None = None
    forgotten: int | None = None
    pending: int | None = None
    sessions: int | None = None
    by_kind: Mapping[str, int] | None = None
    by_tier: Mapping[str, int] | None = None
    upkeep_changed: datetime | None = None
    due: Mapping[str, int] | None = None
    api_keys: int | None = None
    mcp_clients: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@command(app)
def status(call: Call) -> Answer:
    """Show the store: size, model, counts, upkeep, and the agents that use it.

    Counts are of all scopes of the tenant. `salience db status` shows the tables of a file or database. A server tells
    less than a file. Changes nothing. Exits with code 1 if the store cannot be used as it is.
    """
    with spinner("reading the store"):
        found = replace(_status(call), mcp_clients=tuple(_clients()))
    rows = [(name, for_store(value, call.options.store)) for name, value in _rows(found)]
    return Answer(found, (tsv(*row) for row in rows), grid(rows), code=FAILED if found.problems else 0)


def _status(call: Call) -> Status:
    """Return the status of the store, without the clients."""
    import salience
    from salience import compose, settings

    target = call.options.store or settings.load().url
    if compose.is_url(target):
        with salience.connect(target) as server:
            return _counted(Status(store=settings.masked(target)), server)
    with compose.database(target) as database:
        state = database.state()
    found = Status(
        store=state.store, bytes=state.bytes, database=state.server, revision=state.revision, head=state.head,
        embedder=state.embedder, dimension=state.dimension, problems=state.faults,
        api_keys=next((table.rows for table in state.tables if table.name == "api_keys" and state.is_exact), None),
    )  # fmt: skip
    if state.revision != state.head:
        return found
    with compose.moving(target, embedder=call.options.embedder) as engine:
        return _counted(found, engine)


def _counted(found: Status, memory: Verbs) -> Status:
    """Return the status with the counts of an open store."""
    stats, last, due = memory.stats(**_everywhere()), None, None
    hidden = memory.facets(fields=["status"], statuses=("forgotten", "expired", "stale"), **_everywhere())
    with suppress(AccessError):  # a key of a server may lack the rights
        for change in memory.changes(changed_by="upkeep", limit=1, **_everywhere()).changes:
            last = change.memory.changed_at
        if stats.memories <= MOST:
            passed = memory.upkeep(dry_run=True)
            promoted = sum(map(len, passed.promoted.values()))
            due = {"embed": passed.embedded, "expire": len(passed.expired), "promote": promoted, "prune": passed.pruned}
    problems = list(found.problems)
    pinned, used = (found.embedder, found.dimension), (stats.embedder, stats.dimension)
    if pinned[0] is not None and pinned != used:
        problems.append(
            f"the store was written with {pinned[0]}, {pinned[1]} dimensions, and this call has {used[0]}, {used[1]} "
            "dimensions. Choose the store's model with --embedder or SALIENCE_EMBEDDER, or change the store: "
            "salience --embedder NAME reembed"
        )
    return replace(
        found, embedder=found.embedder or (stats.embedder if found.revision is None else None),
        dimension=found.dimension or (stats.dimension if found.revision is None else None),
        memories=stats.memories, forgotten=hidden.total, pending=stats.pending, sessions=stats.sessions,
        by_kind=stats.by_kind, by_tier=stats.by_tier, upkeep_changed=last, due=due, problems=tuple(problems),
    )  # fmt: skip


def _everywhere() -> dict[str, Any]:
    """Return the scope keywords that match every memory of the tenant."""
    from salience.keywords import EVERYWHERE

    return dict(EVERYWHERE)


def _clients() -> Iterator[str]:
    """Yield the MCP clients of this user that have an entry of the name `salience`."""
    from salience.server.mcp import install

    for name, client in install.CLIENTS.items():
        # an entry does not work in a file that cannot be read, nor without the libraries of the server
        with suppress(InputError, OSError, MissingExtraError):
            if install.planned(client, client.file(None), "salience", None).changes:
                yield name


def _rows(found: Status) -> Iterator[tuple[str, str]]:
    """Yield the name and value of each line."""
    yield "store", found.store
    if found.bytes is not None:
        yield "size", f"{size(found.bytes)}, {found.database}"
    if found.revision is not None:
        current = "up to date" if found.revision == found.head else f"this version of Salience has {found.head}"
        yield "schema", f"revision {found.revision}, {current}"
    pinned = ", pinned" if found.revision is not None else ""
    model = f"{found.embedder}, {found.dimension} dimensions{pinned}"
    yield "model", model if found.embedder else "none yet; the first memory pins one"
    if found.memories is not None:
        numbers = [(name, getattr(found, name)) for name in ("forgotten", "pending")]
        shown = [f"{count:,} {name}" for name, count in numbers if count is not None]
        sessions = counted(found.sessions or 0, "session")
        yield "memories", ", ".join([f"{found.memories:,} live", *shown, sessions])
        for name, counts in (("kinds", found.by_kind), ("tiers", found.by_tier)):
            if counts:
                yield name, ", ".join(f"{count:,} {value}" for value, count in counts.items())
        yield "upkeep", _upkeep(found)
    if found.api_keys is not None:
        yield "server", f"{counted(found.api_keys, 'API key')}; start it: salience serve"
    yield "agents", ", ".join(found.mcp_clients) or "none; add one: salience mcp install --client NAME"
    yield from (("wrong", problem) for problem in found.problems)


def _upkeep(found: Status) -> str:
    """Return when upkeep last changed a memory, and what a pass would do now."""
    changed = found.upkeep_changed
    last = "no change yet" if changed is None else f"last change {age(changed, datetime.now(UTC))} ago"
    if found.due is None:
        return f"{last}; to see what is due: salience upkeep --dry-run"
    due = ", ".join(f"{count:,} to {step}" for step, count in found.due.items() if count)
    return f"{last}; due: {due}; run: salience upkeep" if due else f"{last}; nothing is due"


def first_steps(options: Globals) -> str:
    """Return what to do next: the first commands, or those for a store in use."""
    from salience import compose, settings

    target = options.store or settings.load().url
    place = one_line(settings.masked(target))
    next_steps = NEXT.format(store="" if options.store is None else f" --store {shlex.quote(place)}")
    if compose.is_url(target) or compose.on_server(target):  # not asked, since it may be slow to answer
        return f"The store is {place}.\n\n{next_steps}"
    if not compose.file_of(target).exists():
        return f"No memories yet. The first one makes {place}:\n\n{START}"
    try:
        with compose.moving(target, embedder=options.embedder) as engine:
            held = counted(engine.stats(**_everywhere()).memories, "memory", "memories")
    except SalienceError as error:
        return f"The store cannot be used. {one_line(str(error))}\n\nAll commands: salience --help"
    return f"The store {place} has {held}.\n\n{next_steps}"
