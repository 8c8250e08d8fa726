"""What torture on PostgreSQL came to, as lines to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from bench.torture_postgres.growth import Growth
from bench.torture_postgres.kill import Killed
from bench.torture_postgres.leaks import Leaks

SHOWN: Final = 20
"""Most faults that are shown."""
_MB: Final = 1 << 20


def of_leaks(found: Leaks, tenants: int, threads: int) -> Iterator[str]:
    """Yield what random verbs of many tenants came to."""
    yield f"{'tenants, threads':<26}{tenants}, {threads}, for {found.seconds:.1f} s"
    yield f"{'verbs answered':<26}{found.verbs.total():,}: {_listed(found.verbs)}"
    yield f"{'tries on foreign ids':<26}{found.refused.total():,}, all refused: {_listed(found.refused)}"
    yield f"{'other refusals':<26}{_listed(found.errors) or 'none'}"
    yield f"{'answers with foreign parts':<26}{found.foreign}"
    yield f"{'statements by hand':<26}{found.prowl.tried:,}"
    yield f"{'foreign rows seen':<26}{found.prowl.seen}"
    yield f"{'foreign rows changed':<26}{found.prowl.changed}"
    yield from _faults([f"{count} times: {fault}" for fault, count in found.faults.items()])


def of_killed(found: Killed) -> Iterator[str]:
    """Yield what servers that were killed came to."""
    checked = list(found.checked.values())
    yield f"{'harms':<26}{found.harms.total()}: {_listed(found.harms)}"
    yield f"{'commits cut off':<26}{found.cuts}"
    yield f"{'verbs acknowledged':<26}{found.verbs.total():,}: {_listed(found.verbs)}"
    yield f"{'versions acknowledged':<26}{sum(one.told for one in checked):,}"
    yield f"{'acknowledged and lost':<26}{sum(one.lost for one in checked)}"
    whole, absent = sum(one.whole for one in checked), sum(one.absent for one in checked)
    yield f"{'of unknown end':<26}{whole + absent}: {whole} found whole, {absent} not there at all"
    yield f"{'errors of writers':<26}{_listed(found.errors) or 'none'}"
    yield f"{'all write again':<26}{_seconds(found.back)} after the server is back"
    yield from _faults(found.faults)


def of_growth(found: Growth) -> Iterator[str]:
    """Yield what tenants made in a row came to."""
    early, late = found.standings
    edge = len(found.again[0])
    yield f"{'tenants, threads':<26}{found.tenants:,}, {found.threads}, in {found.seconds:.1f} s"
    for name, each in (("remember", found.remember), ("recall", found.recall)):
        yield f"{name:<26}first {edge}: {_milliseconds(each[:edge])}; last {edge}: {_milliseconds(each[-edge:])}"
    first, last = found.again
    yield f"{'recall by one thread':<26}first {edge}: {_milliseconds(first)}; last {edge}: {_milliseconds(last)}"
    yield f"{'last over first':<26}{found.ratio:.2f} while they were made, {found.ratio_again:.2f} by one thread"
    yield f"{'memory of the process':<26}{early.process / _MB:.0f} MB, then {late.process / _MB:.0f} MB"
    yield f"{'memory of a backend':<26}at most {early.backend / _MB:.1f} MB, then {late.backend / _MB:.1f} MB"
    yield f"{'connections':<26}{early.backends}, then {late.backends}"
    yield f"{'rows of the catalog':<26}{early.entries:,}, then {late.entries:,}"
    yield from _faults(found.faults)


def _listed(counts: Mapping[str, int] | Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))


def _milliseconds(seconds: Sequence[float]) -> str:
    half, most = np.quantile(np.array(seconds) * 1e3, [0.5, 0.95])
    return f"p50 {half:.1f} ms, p95 {most:.1f} ms"


def _seconds(seconds: Sequence[float]) -> str:
    return f"p50 {np.median(seconds):.1f} s, at most {max(seconds):.1f} s" if seconds else "not measured"


def _faults(faults: Sequence[str]) -> Iterator[str]:
    yield f"{'faults':<26}{len(faults)}"
    yield from (f"  {fault}" for fault in faults[:SHOWN])
    if len(faults) > SHOWN:
        yield f"  ... and {len(faults) - SHOWN} more"
