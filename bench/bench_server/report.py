"""The page: what was measured, as tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.bench_server.loads import KNOWN, LOADS
from bench.bench_server.measuring import WORKERS, Amounts
from bench.bench_server.mixing import CLIENTS
from bench.bench_server.place import PROJECTS
from bench.served import STORES

Kept = Mapping[str, Mapping[str, Any]]
QUANTILES: Final = ("p50", "p95", "p99")
NAMES: Final = {"sqlite": "SQLite", "postgres": "PostgreSQL"}


@dataclass(frozen=True, slots=True)
class Machine:
    """Where it was measured: processor, cores, bytes of memory."""

    processor: str
    cores: int
    memory: int


def page(kept: Kept, amounts: Amounts, machine: Machine) -> str:
    """Return the page."""
    return "\n\n".join((_head(kept, amounts, machine), _recalls(kept, amounts), _mixed(kept, amounts), _ends(kept)))


def _head(kept: Kept, amounts: Amounts, machine: Machine) -> str:
    loads = [load for part in kept.values() for load in part["loads"]]
    each = amounts.memories // PROJECTS
    return f"""# What one server answers

Made by `make bench-server`, which runs `python -m bench.bench_server`; do not edit it by hand. With
`--kept FILE` it goes on where it was cut off.

`salience serve` as it is run, with the embedder `minilm` and all settings as they are, on
{amounts.memories:,} memories of one tenant in {PROJECTS} projects, asked over loopback with a key, over
connections that are kept open. A recall has the limit and the profile that it has by default; most see
one project, {each:,} memories. PostgreSQL is asked as a user under row-level security.

Machine: {machine.processor}, {machine.cores} cores, {machine.memory / 2**30:.0f} GiB. **The
server, the database and all clients share these cores, and whatever else runs there**: the load average,
with these programs in it, was {min(loads):.1f} to {max(loads):.1f}. Take the figures as ratios: to the engine
alone in the same run, to one worker, to one client."""


def _recalls(kept: Kept, amounts: Amounts) -> str:
    rows = [row for kind in STORES for row in _rows(kept, kind)]
    head = ("store", "asked", "workers", "clients", "embedded", "a second", "ratio", *QUANTILES, "errors", "load")
    return f"""## Recalls

By `wrk`, {amounts.seconds:.0f} s a row. Of {KNOWN} known questions the server has the vectors, since they were asked
before; a new one was never asked, and its vector is made on the cores that all share. *Embedded* is the share of the
new ones, as the server counted. A recall is noted on what it returned, which is a write; with a key that may only read
it is not. The row without workers is the engine alone, in a process without a server, one recall after the other;
*ratio* is the rate over that one. p50, p95 and p99 are milliseconds. *Errors* are answers with a status of 400 or more,
connections that broke, and answers that took a minute. *Load* is the load average before and after
the part of the measurement to which a row belongs.

{_table(head, rows)}"""


def _rows(kept: Kept, kind: str) -> Iterator[list[str]]:
    for load in LOADS:
        alone = kept[f"{kind} alone"][load.name]
        figures = [f"{alone['a_second']:,.0f}", "1", *_quantiles(alone), "", _machine_load(kept[f"{kind} alone"])]
        yield [NAMES[kind], load.name, "", "", "", *figures]
        for workers in WORKERS:
            part = kept[f"{kind} asked {workers}"]
            for row in part["rows"]:
                if row["load"] == load.name:
                    found = _row(row, alone["a_second"])
                    yield [NAMES[kind], load.name, str(workers), *found, _machine_load(part)]


def _row(row: Mapping[str, Any], alone: float) -> list[str]:
    rate, errors = row["requests"] / row["seconds"], row["refused"] + row["failed"]
    share = f"{row['new']:.0%}"
    return [str(row["clients"]), share, f"{rate:,.0f}", f"{rate / alone:.2f}", *_quantiles(row), str(errors)]


def _mixed(kept: Kept, amounts: Amounts) -> str:
    rows = [
        [NAMES[kind], str(workers), *_mix(kept[f"{kind} mixed {workers}"])] for kind in STORES for workers in WORKERS
    ]
    verbs = [f"{verb} {name}" for verb in ("recall", "write") for name in QUANTILES]
    head = ("store", "workers", "recalls", "writes", "a second", *verbs, "errors", "acknowledged", "lost", "load")
    return f"""## Recalls and writes

{CLIENTS} clients for {amounts.mixed:.0f} s: {1 - amounts.writes:.0%} of the requests recall, {amounts.writes:.0%}
write. Half of the questions are new. So is each text that is written: it is embedded, compared with what is there, and
on the disk before it is acknowledged. These clients are Python, and need more of the cores than `wrk`. Once the server
is ended, each memory that it acknowledged is looked for in the store, with its text.

{_table(head, rows)}"""


def _mix(found: Mapping[str, Any]) -> list[str]:
    recalls, writes = found["recall"], found["remember"]
    rate = (recalls["count"] + writes["count"]) / found["seconds"]
    counts = [f"{recalls['count']:,}", f"{writes['count']:,}", f"{rate:,.0f}"]
    errors = sum(found["errors"].values())
    after = [str(errors), f"{found['acknowledged']:,}", str(found["lost"]), _machine_load(found)]
    return [*counts, *_quantiles(recalls), *_quantiles(writes), *after]


def _ends(kept: Kept) -> str:
    rows = [
        [NAMES[kind], str(workers), *_ended(kept[f"{kind} ended {workers}"]["rounds"])]
        for kind in STORES
        for workers in WORKERS
    ]
    head = ("store", "workers", "ended", "with code 0", "took, s", "acknowledged", "lost", "hung, or an error")
    return f"""## Its end, under load

SIGTERM while {CLIENTS} clients recall and write, as much of the one as of the other. *Took* is from the signal
to the end of the process: median, and most.

{_table(head, rows)}"""


def _ended(rounds: Sequence[Mapping[str, Any]]) -> list[str]:
    took = sorted(one["seconds"] for one in rounds)
    clean = sum(one["code"] == 0 for one in rounds)
    acknowledged, lost = (sum(one[name] for one in rounds) for name in ("acknowledged", "lost"))
    errors = sum(sum(one["errors"].values()) for one in rounds)
    spent = f"{took[len(took) // 2]:.1f}, {took[-1]:.1f}"
    return [str(len(rounds)), str(clean), spent, f"{acknowledged:,}", str(lost), str(errors)]


def _machine_load(part: Mapping[str, Any]) -> str:
    """Return the load average before and after a part."""
    return ", ".join(f"{one:.1f}" for one in part["loads"])


def _quantiles(found: Mapping[str, float]) -> list[str]:
    return [f"{found[name]:,.1f}" for name in QUANTILES]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows))
