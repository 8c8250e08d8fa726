"""The page: what was measured, as tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Final

from bench.bench_postgres.asking import LIMIT, Latency
from bench.bench_postgres.corpus import PROJECTS, SESSION, SHARED, USER, Corpus
from bench.bench_postgres.figures import Agreement, Measured, Row
from bench.bench_postgres.loading import Size, Step

LARGE: Final = 2**20
"""Bytes from which on a table or an index has a line of its own."""
STEPS: Final = ("need", "embed", "gather", "rank", "fetch", "touch")
_LATENCY: Final = (
    "who asks",
    "in sight",
    "profile",
    "hits",
    "p50",
    "p95",
    "p99",
    "p50 of 16",
    "p95",
    "p99",
    "a second",
)
_AGREEMENT: Final = (
    "who asks",
    "ranking",
    "questions",
    "hits",
    "recall@10",
    "recall@100",
    "same ten",
    "exact",
    "wrongly",
)


@dataclass(frozen=True, slots=True)
class Machine:
    """Where it was measured: processor, cores, bytes of memory, the server, and its settings in words."""

    processor: str
    cores: int
    memory: int
    server: str
    settings: str


def page(measured: Measured, corpus: Corpus, machine: Machine, command: str) -> str:
    """Return the page."""
    parts = (
        _head(measured, corpus, machine, command),
        _loading(measured),
        _disk(measured, corpus),
        _latency(measured),
        _filtered(measured),
        _agreement(measured),
        _half(measured),
        _writing(measured),
        _memory(measured),
    )
    return "\n\n".join(parts)


def _head(measured: Measured, corpus: Corpus, machine: Machine, command: str) -> str:
    loads, sizes = measured.loads, corpus.sizes
    return f"""# What one PostgreSQL server holds

Made by `make bench-postgres`, which runs `{command}`; do not edit it by hand.

{corpus.memories:,} memories of {corpus.tenants:,} tenants, the largest with {sizes[0]:,}, the median one with
{median(sizes):,.0f}: sessions of {SESSION} turns, whose words mean nothing but follow the frequencies of real ones,
and vectors of 384 numbers that follow from the words, so that texts on one topic lie together. A tenant has a user for
every {USER} memories and {PROJECTS} projects; {SHARED:.0%} of the sessions belong to no user, one in {PROJECTS + 1} to
no project. Clients
work as a user under row-level security and through the whole of the engine; the embedder costs next to nothing.

Machine: {machine.processor}, {machine.cores} cores, {machine.memory / 2**30:.0f} GiB; {machine.server}.
{machine.settings}

**The server and all its clients share these cores, and whatever else runs there**: the load average, with these
clients in it, was {loads[0]:.1f} when the loading began, {loads[1]:.1f} when the index of vectors did, and
{min(loads[2:]):.1f} to {max(loads[2:]):.1f} when later parts did. Take the figures as ratios."""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows))


def _bytes(count: float) -> str:
    return f"{count / 2**20:,.0f} MB" if count >= 2**20 else f"{count / 2**10:,.0f} kB"


def _loading(measured: Measured) -> str:
    loaded = measured.loaded
    sending, making = (mean(getattr(each, name) for each in loaded.poured) for name in ("sending", "making"))
    rows = [
        ["rows, by binary COPY", f"{loaded.seconds:,.0f} s", f"{loaded.count / loaded.seconds:,.0f} rows/s"],
        ["of that, sending them", f"{sending:,.0f} s", f"{loaded.count / sending:,.0f} rows/s"],
        ["of that, making them up", f"{making:,.0f} s", f"{loaded.count / making:,.0f} rows/s"],
        *map(_step, (*loaded.steps, measured.index, measured.half)),
    ]
    return f"""## Loading

By a superuser on {len(loaded.poured)} connections. The primary key and the unique one of `memories` stand while rows
come; all else is made afterwards, the indexes of vectors by `salience db index`.

{_table(["step", "takes", "rate, or size"], rows)}"""


def _step(step: Step) -> list[str]:
    return [f"`{step.what}`", f"{step.seconds:,.1f} s", "" if step.bytes is None else _bytes(step.bytes)]


def _disk(measured: Measured, corpus: Corpus) -> str:
    large = [size for size in measured.sizes if size.bytes >= LARGE]
    total = sum(size.bytes for size in measured.sizes if not size.name.endswith("_half"))
    lines = [(_named(size), size.method, size.bytes) for size in large]
    rows = [
        [name, method, _bytes(count), f"{count / corpus.memories:,.0f}"]
        for name, method, count in (*lines, ("all, without the index of half the precision", "", total))
    ]
    return f"## On the disk\n\n{_table(['what', 'method', 'size', 'bytes a memory'], rows)}"


def _named(size: Size) -> str:
    if not size.name.startswith("pg_toast"):
        return f"`{size.name}`"
    return "vectors (TOAST), their index" if size.name.endswith("index") else "vectors (TOAST)"


def _latency(measured: Measured) -> str:
    largest = [row for row in measured.rows if row.case == measured.rows[0].case]
    laps = [[row.profile, *(f"{row.alone.laps.get(step, 0.0):.1f}" for step in STEPS)] for row in largest]
    return f"""## Latency

Milliseconds of `recall(limit={LIMIT})`: p50, p95 and p99 for one client, then for 16 at the same time (4 processes of 4
threads), and how many recalls these get in a second. All 16 ask one tenant: to note what a recall returned, as
`salience` and `zeromemory` do, its writers take turns.

{_table(_LATENCY, map(_row, measured.rows))}

By step, for one client who sees all of the largest tenant (medians):

{_table(["profile", *STEPS], laps)}"""


def _row(row: Row) -> list[str]:
    known = [row.case.label, f"{row.visible:,}", row.profile, f"{row.alone.hits:.1f}"]
    return [*known, *_ms(row.alone), *_ms(row.crowd), f"{row.crowd.rate:,.0f}"]


def _ms(latency: Latency) -> list[str]:
    return [f"{value:,.1f}" for value in (latency.p50, latency.p95, latency.p99)]


def _filtered(measured: Measured) -> str:
    return f"""## Filtered

The same with `tags=`; "in sight" are the memories that carry the tag. The questions are on any of the tenant's
memories, and of those with the tag only the ones that fit are returned; the next table has those that do not fit, too.

{_table(_LATENCY, map(_row, measured.filtered))}"""


def _agreement(measured: Measured) -> str:
    return f"""## Against scoring everything

Answers out of the indexes, against those of an engine that scores every memory in sight (`SALIENCE_EXACT_ROWS` beyond
their number), for the same questions. "nearest" is the index of vectors alone, asked for 100. Of a profile, the ten
best are compared, however low their scores: how many there are, which share of them is there, how often they are the
same in the same order, how many answers say that they are exact, and how many of these are not the same.

{_agreements(measured.agreements)}"""


def _agreements(agreements: Iterable[Agreement]) -> str:
    return _table(_AGREEMENT, map(_agreed, agreements))


def _agreed(one: Agreement) -> list[str]:
    hundred = "" if one.hundred is None else f"{one.hundred:.3f}"
    exact = ["", ""] if one.profile is None else [f"{one.exact:.0%}", str(one.wrong)]
    known = [one.case.label, one.profile or "nearest", str(one.count), f"{one.hits:.1f}"]
    return [*known, f"{one.share:.3f}", hundred, f"{one.same:.0%}", *exact]


def _half(measured: Measured) -> str:
    return f"""## An index of half the precision

`salience db index --halfvec` makes one, and searches take it where it is there.

{_table(_LATENCY, map(_row, measured.half_rows))}

{_agreements(measured.halved)}"""


def _writing(measured: Measured) -> str:
    written = [[one.case.label, f"{one.p50:,.1f}", f"{one.p95:,.1f}", f"{one.touch:,.1f}"] for one in measured.written]
    cold = [[one.case.label, f"{one.visible:,}", f"{one.first:,.0f}", f"{one.later:,.1f}"] for one in measured.cold]
    return f"""## Writing, and the first recall

Milliseconds of one `remember` of a user, with every index in place and with the search for what it may contradict;
and of noting what a recall with `salience` returned. Each is a transaction on the disk.

{_table(["tenant", "remember p50", "p95", "noting p50"], written)}

The first recall of a new engine, which reads what is in sight where that is few enough to be kept, and the ones after
it:

{_table(["who asks", "in sight", "first", "later"], cold)}"""


def _memory(measured: Measured) -> str:
    client = measured.client
    grown = client.after - client.before
    return f"""## Memory

- A client has {_bytes(client.before)} before it holds any memory. The {client.count:,} of the largest tenant take
  {_bytes(grown)} more, {grown / max(1, client.count):,.0f} bytes each. By default it holds up to 100,000 of those that
  it asked for last (`SALIENCE_CACHED_ROWS`).
- The server has its shared buffers, and its processes {_bytes(measured.backends)} for themselves, with 16 clients
  connected."""
