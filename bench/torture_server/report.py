"""What torture of a server came to, as lines to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from bench.torture_server.cast import TENANTS
from bench.torture_server.judging import Leaks
from bench.torture_server.timing import KINDS, Timed

SHOWN: Final = 20
"""Most faults that are shown."""


def of_leaks(found: Leaks, threads: int) -> Iterator[str]:
    """Yield what random requests of many keys came to."""
    yield f"{'keys, tenants, threads':<28}{5 * TENANTS}, {TENANTS}, {threads}, for {found.seconds:.1f} s"
    yield f"{'requests done':<28}{found.answered.total():,}: {_listed(found.answered)}"
    yield f"{'requests refused':<28}{found.refused.total():,}: {_listed(found.refused)}"
    yield f"{'tries beyond the key':<28}{found.beyond.total():,}, each beside one on nothing: {_listed(found.beyond)}"
    yield f"{'requests under revoked keys':<28}{found.taken_back:,}"
    yield f"{'answers with foreign parts':<28}{found.foreign}"
    yield f"{'versions in the end':<28}{found.checked:,}"
    yield f"{'foreign changes':<28}{found.changed}"
    yield f"{'faults':<28}{len(found.faults)}"
    yield from (f"  {count} times: {fault}" for fault, count in found.faults.most_common(SHOWN))


def of_timing(found: Sequence[Timed]) -> Iterator[str]:
    """Yield how long requests about nothing and about what is another's took, and the ratio of the medians."""
    rounds = len(found[0].seconds[KINDS[0]])
    yield f"{'request':<22}{'on what is':<18}{'median, p10 in ms':<20}over what is not there; n = {rounds}"
    for one in found:
        for kind in KINDS:
            what = f"{one.what if kind == KINDS[0] else '':<22}{kind:<18}"
            times, ratios = f"{one.median(kind):.2f}, {one.fast(kind):.2f}", one.ratios(kind)
            yield f"{what}{times:<20}{ratios[0]:.3f}, {ratios[1]:.3f}"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))
