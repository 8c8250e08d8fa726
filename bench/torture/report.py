"""What torture came to, as lines to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from bench.torture.crash import Run
from bench.torture.crowd import Crowd
from bench.torture.full_disk import Squeezed

SHOWN: Final = 20
"""Most faults that are shown."""


def of_runs(runs: Sequence[Run]) -> Iterator[str]:
    """Yield what runs with kills came to."""
    lives = [life for run in runs for life in run.lives]
    killed: Counter[str] = Counter()
    for life in lives:
        killed[life.way] += life.killed
    verbs = sum((run.verbs for run in runs), Counter[str]())
    last = [run.lives[-1].checked for run in runs]
    yield f"{'files':<22}{len(runs)}"
    yield f"{'killed processes':<22}{killed.total()}: {_listed(killed)}"
    yield f"{'verbs acknowledged':<22}{verbs.total():,}: {_listed(verbs)}"
    yield f"{'versions acknowledged':<22}{sum(checked.told for checked in last):,}"
    whole, absent = (sum(getattr(life.checked, name) for life in lives) for name in ("whole", "absent"))
    yield f"{'writes cut off':<22}{whole + absent}: {whole} found whole, {absent} not there at all"
    yield f"{'acknowledged and lost':<22}{sum(life.checked.lost for life in lives)}"
    yield f"{'erased, with a trace':<22}{len({trace for life in lives for trace in life.traces})}"
    yield f"{'failed to open':<22}{sum(life.checked.unopened for life in lives)}"
    yield from _faults([f"run {number}, {fault}" for number, run in enumerate(runs) for fault in run.faults])


def of_crowd(crowd: Crowd) -> Iterator[str]:
    """Yield what a crowd came to."""
    figures = crowd.figures
    yield f"{'processes':<22}{crowd.processes}, for {crowd.seconds:.1f} s"
    yield f"{'writes':<22}{_rate(figures.writes, crowd.seconds)}"
    yield f"{'recalls':<22}{_rate(figures.recalls, crowd.seconds)}; {figures.uncounted} not counted on their memories"
    yield f"{'versions acknowledged':<22}{crowd.checked.told:,}"
    yield f"{'acknowledged and lost':<22}{crowd.checked.lost}"
    yield f"{'stale reads':<22}{figures.stale} of {figures.met:,} memories that another process had just written"
    yield from _faults(crowd.checked.faults)


def of_cases(cases: Sequence[Squeezed]) -> Iterator[str]:
    """Yield what cases of no room came to: what the store said, how often, and what was wrong."""
    for case in cases:
        yield case.name
        if case.checked is None:
            yield f"  skipped: {case.skipped}"
            continue
        said = Counter((told.during, told.error or "went on") for told in case.refusals)
        yield from (f"  {during}, {count} times: {error}" for (during, error), count in sorted(said.items()))
        yield f"  versions acknowledged {case.checked.told:,}, lost {case.checked.lost}"
    yield from _faults([f"{case.name}: {fault}" for case in cases for fault in case.faults])


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _rate(seconds: Sequence[float], elapsed: float) -> str:
    if not seconds:
        return "none"
    half, most = np.quantile(np.array(seconds) * 1e3, [0.5, 0.95])
    return f"{len(seconds):,}, {len(seconds) / elapsed:.0f} a second; p50 {half:.1f} ms, p95 {most:.1f} ms"


def _faults(faults: Sequence[str]) -> Iterator[str]:
    yield f"{'faults':<22}{len(faults)}"
    yield from (f"  {fault}" for fault in faults[:SHOWN])
    if len(faults) > SHOWN:
        yield f"  ... and {len(faults) - SHOWN} more"
