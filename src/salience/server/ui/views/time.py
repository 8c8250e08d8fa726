"""Time: when facts were valid, by texts or by writes; the store at an instant; and how much happened each day."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import RedirectResponse, Response

from salience.errors import InputError, NotFoundError
from salience.records import CALLER, FACT, LIKELY, STATUSES, ActivityDay, Hit, Memory, checks
from salience.server.ui.charts import Span
from salience.server.ui.page import Page, Visit
from salience.server.ui.views.memory import of_fact

router = APIRouter()
DAY: Final = timedelta(days=1)
EPOCH: Final = date(1970, 1, 1)
EARLIEST: Final = datetime(3, 1, 1, tzinfo=UTC)
"""Earliest last day of a year of weeks."""
ROWS: Final = 30
"""Memories on a page."""
LATEST: Final = 15
"""Memories on the page that names none."""
READ: Final = 200
"""Memories that changed last, among which those with a fact come first."""
HITS: Final = 10
"""Memories of an answer."""
STATES: Final = {
    "valid": "valid", "replaced": "replaced by a newer memory", "doubted": "probably replaced by a newer memory",
    "expired": "expired", "hidden": "forgotten",
}  # fmt: skip
"""State of a memory in a period -> its description."""
COUNTS: Final = {
    "all": "everything", "created": "stored", "changed": "changed", "forgotten": "forgotten",
    "recalled": "last recalled", "dated": "dated, by their texts",
}  # fmt: skip
"""Counts of a day to draw -> their label; `all` leaves out the last, which counts what is stored again."""
TIMES: Final = {"texts": "the dates of the texts", "writes": "when it was stored"}
"""When a memory begins to be valid -> the label."""


@dataclass(frozen=True, slots=True)
class Period:
    """A period in which a memory had one version and one state of `STATES`; `end` is None up to now."""

    start: datetime
    end: datetime | None
    state: str
    memory: Memory


@dataclass(frozen=True, slots=True)
class Row:
    """A memory with its periods, its strip, the period of the chosen instant, and its ranks then and now."""

    memory: Memory
    periods: list[Period]
    spans: list[Span]
    then: Period | None
    rank_then: int | None
    rank_now: int | None


@router.get("/time")
def show(page: Visit) -> Response:
    """Return the page; a day from the slider becomes the date in the URL."""
    if day := page.query.get("day"):
        number = _whole("day", day)
        chosen = EPOCH + timedelta(days=min(number, 200_000))
        return RedirectResponse(page.here(day=None, as_of=chosen.isoformat()), 303)
    at = instant_of(page.query.get("as_of"), page.now)
    query, fact = page.query.get("q", "").strip(), page.query.get("fact", "").strip()
    now = page.call("recall", query=query, limit=HITS, dry_run=True) if query else ()
    histories = _histories(page, [hit.memory.id for hit in now])
    default = "texts" if 2 * sum(map(is_late, histories)) > len(histories) else "writes"
    times = checks.choice("times", page.query.get("times") or default, tuple(TIMES))
    then = now
    if query and at < page.now:
        past = {"until": at, "now": at} if times == "texts" else {"as_of": at}
        then = page.call("recall", query=query, limit=HITS, dry_run=True, **past)
        histories = _histories(page, [hit.memory.id for hit in (*then, *now)])
    if times == "texts":
        histories = [[since_text(first), *later] for first, *later in histories]
    ranks_then, ranks_now = _ranks(then), _ranks(now)
    periods = validity(histories, page.now)
    start = min((one[0].start for one in periods if one), default=page.now)
    first = min(start, at).astimezone(UTC)
    span = (page.now - first) or DAY
    rows = [
        Row(
            versions[-1],
            found,
            [_span(one, first, span, page.now) for one in found],
            next((one for one in found if one.start <= at and (one.end is None or at < one.end)), None),
            ranks_then.get(versions[-1].id),
            ranks_now.get(versions[-1].id),
        )
        for versions, found in zip(histories, periods, strict=True)
    ]
    rows.sort(key=lambda row: (row.rank_then or 99, row.rank_now or 99) if query else (0, 0))
    bounds = sorted(
        {one.start for row in rows for one in row.periods} | {one.end for row in rows for one in row.periods if one.end}
    )
    most = "dated" if times == "texts" else "all"
    what = checks.choice("count", page.query.get("count", most), tuple(COUNTS))
    samples = _samples(histories)
    latest = max((versions[0].created_at for versions in histories), default=page.now)
    last = max(min(latest, page.now), EARLIEST) if what == "dated" else page.now
    days = page.call("activity", until=last + timedelta(microseconds=1))
    return page.render(
        "views/time.html",
        q=query,
        fact=fact,
        at=at,
        is_past=page.query.get("as_of") is not None,
        rows=rows,
        groups=grouped(rows),
        first=first,
        place=min(max((at - first) / span, 0.0), 1.0),
        before=max((one for one in bounds if at - one > timedelta(seconds=1)), default=None),
        after=min((one for one in bounds if one - at > timedelta(seconds=1) and one <= page.now), default=None),
        days=((first.date() - EPOCH).days, (at.date() - EPOCH).days, (page.now.date() - EPOCH).days),
        times=times,
        samples=samples,
        STATES=STATES,
        TIMES=TIMES,
        COUNTS=COUNTS,
        count=what,
        activity=days,
        last=last,
        weeks=weeks(days, last.astimezone(UTC).date(), what),
        months=months(days),
    )


def instant_of(text: str | None, now: datetime) -> datetime:
    """Return the instant that a parameter names: a date means the end of that day in UTC; never after now.

    Raises:
        InputError: the text is neither a date nor an instant with an offset.
    """
    if not text:
        return now
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return min(checks.instant("as_of", text), now)
    if day >= now.date():
        return now
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + DAY - timedelta(microseconds=1)


def is_late(versions: Sequence[Memory]) -> bool:
    """Return whether a memory was stored more than a day after its text, as those of an earlier history are."""
    return versions[0].changed_at - versions[0].created_at > DAY


def since_text(first: Memory) -> Memory:
    """Return the first version of a memory as if it had been stored when its text was written."""
    return replace(first, changed_at=min(first.created_at, first.changed_at))


def _samples(histories: Sequence[Sequence[Memory]]) -> dict[str, str]:
    """Return a question, a fact and a word that memories of the page answer: the fields of the form -> an example."""
    memories = [versions[-1] for versions in histories]
    fact = next((one.fact_key for one in memories if one.fact_key), "")
    name = next((one.entities[0] for one in memories if one.entities), "")
    return {"q": f"What is known about {name}?" if name else "", "fact": fact, "words": name}


def _ranks(hits: Iterable[Hit]) -> dict[str, int]:
    return {hit.memory.id: place for place, hit in enumerate(hits, 1)}


def _histories(page: Page, hits: Iterable[str]) -> list[list[Memory]]:
    """Return the versions of each memory of the page, oldest first, with those that it replaces, or that replace it."""

    def latest(order: str, limit: int, **conditions: Any) -> list[Memory]:
        return list(page.call("list", order=order, descending=True, limit=limit, statuses=STATUSES, **conditions))

    chosen: Sequence[Memory | str]
    if page.query.get("q", "").strip():
        chosen = list(dict.fromkeys(hits))
    elif fact := page.query.get("fact", "").strip():
        chosen = latest("created_at", ROWS, fact_keys=[fact])
    elif words := page.query.get("words", "").split():
        chosen = latest("updated_at", ROWS, words=words[:20])
    elif named := page.query.get("id", "").strip():
        chosen = [named]
    else:
        chosen = sorted(latest("updated_at", READ), key=lambda one: one.fact_key is None)[:LATEST]
    found = {versions[-1].id: versions for one in chosen if (versions := _versions(page, one))}
    facts = list({one.fact_key for versions in found.values() for one in versions[-1:] if one.fact_key})
    kin = latest("created_at", 4 * ROWS, fact_keys=facts) if facts else []
    kin += latest("created_at", ROWS, linked_to=[*found]) if found else []
    lasts = [versions[-1] for versions in found.values()]
    links: list[Memory | str] = [older for one in lasts for older in likely(one)]
    links += [one for one in kin if found.keys() & likely(one) or any(of_fact(one, other) for other in lasts)]
    for link in links:
        is_new = (link if isinstance(link, str) else link.id) not in found and len(found) < 2 * ROWS
        if is_new and (versions := _versions(page, link)):
            found[versions[-1].id] = versions
    return list(found.values())


def _versions(page: Page, one: Memory | str) -> list[Memory]:
    """Return the versions of a memory or of an id, oldest first; none if it is not visible."""
    if isinstance(one, Memory) and one.version == 1:
        return [one]
    try:
        return [version.memory for version in page.call("history", id=one if isinstance(one, str) else one.id)]
    except NotFoundError:
        return []


def validity(histories: Sequence[Sequence[Memory]], now: datetime) -> list[list[Period]]:
    """Return the periods of each memory, from its versions: a state of `STATES` each.

    A memory is replaced while a live memory likely replaces it, and only `doubted` unless a caller or a fact said so.
    """
    instants = {one.changed_at for versions in histories for one in versions}
    instants |= {one.expires_at for versions in histories for one in versions if one.expires_at}
    bounds = sorted(at for at in instants if at <= now)
    found: list[list[Period]] = [[] for _ in histories]
    for start in bounds:
        current = [_at(versions, start) for versions in histories]
        live = [one for one in current if one is not None and _state(one, start) == "valid"]
        replaced = {older for one in live for older in likely(one)}
        stated = {link.id for one in live for link in one.relations or () if link.by in (CALLER, FACT)}
        for periods, memory in zip(found, current, strict=True):
            if memory is None:
                continue
            state = _state(memory, start)
            if state == "valid" and memory.id in replaced:
                state = "replaced" if memory.id in stated else "doubted"
            last = periods[-1] if periods else None
            if last is not None and (last.state, last.memory.version) == (state, memory.version):
                continue
            if last is not None:
                periods[-1] = Period(last.start, start, last.state, last.memory)
            periods.append(Period(start, None, state, memory))
    return found


def _at(versions: Sequence[Memory], at: datetime) -> Memory | None:
    return next((one for one in reversed(versions) if one.changed_at <= at), None)


def _state(memory: Memory, at: datetime) -> str:
    if memory.forgotten_at is not None and memory.forgotten_at <= at:
        return "expired" if memory.status == "expired" else "hidden"
    return "expired" if memory.expires_at is not None and memory.expires_at <= at else "valid"


def likely(memory: Memory) -> set[str]:
    """Return the ids of the older memories that a memory likely replaces."""
    return {one.id for one in memory.relations or () if one.kind == "replaces" and one.probability >= LIKELY}


def _span(period: Period, first: datetime, span: timedelta, now: datetime) -> Span:
    start, end = period.start, period.end or now
    dates = f"{start:%Y-%m-%d %H:%M} to {'now' if period.end is None else f'{end:%Y-%m-%d %H:%M}'}"
    title = f"Version {period.memory.version}, {STATES[period.state]}: {dates}"
    return (start - first) / span, (end - first) / span, period.state, title


def grouped(rows: Sequence[Row]) -> list[tuple[str | None, list[Row]]]:
    """Return the rows by fact, in the order of their first row; neighbours that state no fact share None."""
    groups: list[tuple[str | None, list[Row]]] = []
    for row in rows:
        same = next((members for _, members in groups if of_fact(members[0].memory, row.memory)), None)
        if row.memory.fact_key is None and groups and groups[-1][0] is None:
            groups[-1][1].append(row)
        elif same is None:
            groups.append((row.memory.fact_key, [row]))
        else:
            same.append(row)
    return [
        (fact, sorted(members, key=lambda row: row.periods[0].start) if fact else members) for fact, members in groups
    ]


def weeks(
    days: Sequence[ActivityDay], last: date, what: str
) -> tuple[list[tuple[str, list[int]]], list[str], list[str]]:
    """Return the counts of the last 53 weeks: a row for each weekday, the date of each Monday, and headings."""
    counts = {day.day: _count(day, what) for day in days}
    monday = last - timedelta(days=last.weekday() + 7 * 52)
    mondays = [monday + timedelta(days=7 * week) for week in range(53)]
    rows = [
        (
            name if place % 2 == 0 else "",
            [counts.get((one + timedelta(days=place)).isoformat(), 0) for one in mondays],
        )
        for place, name in enumerate(("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"))
    ]
    heads = [f"{one:%b}" if one.day <= 7 else "" for one in mondays]
    return rows, [one.isoformat() for one in mondays], heads


def _count(day: ActivityDay, what: str) -> int:
    names = tuple(COUNTS)[1:-1] if what == "all" else (what,)
    return sum(int(getattr(day, name)) for name in names)


def months(days: Sequence[ActivityDay]) -> list[tuple[str, dict[str, int]]]:
    """Return the counts of each month, the latest first."""
    found: dict[str, dict[str, int]] = {}
    for day in days:
        month = found.setdefault(day.day[:7], dict.fromkeys(tuple(COUNTS)[1:], 0))
        for name in month:
            month[name] += getattr(day, name)
    return sorted(found.items(), reverse=True)


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise InputError(name, text, "Give a whole number.", "is not a whole number")
    return int(text)
