"""What the pages of figures share: percentiles, tables, the machine, and words on progress."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil

Figures = dict[str, Any]
PERCENTILES: Final = ("p50", "p95", "p99")


def quantiles(times: Sequence[float]) -> Figures:
    """Return p50, p95 and p99 in milliseconds, and the number of times."""
    shares = np.quantile(times, (0.5, 0.95, 0.99)).tolist()
    return dict(zip(PERCENTILES, shares, strict=True)) | {"n": len(times)}


def number(value: float | None, digits: int = 2) -> str:
    """Return a number, with fewer digits where it is large; nothing for None."""
    return "" if value is None else f"{value:,.{0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else digits}f}"


def percentiles(figures: Mapping[str, Any], names: Sequence[str] = PERCENTILES) -> list[str]:
    """Return the cells of a row that hold its percentiles."""
    return [number(figures[name]) for name in names]


def table(head: Sequence[str], rows: Sequence[Sequence[str]], names: int = 1) -> str:
    """Return a table in Markdown; the first columns are names, the others numbers."""
    rule = ["---"] * names + ["---:"] * (len(head) - names)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))


def machine() -> str:
    """Return the processor, its cores and the memory."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores, {memory / 2**30:.0f} GiB"


def resident_bytes() -> int:
    """Return the bytes of memory that this process holds."""
    return int(psutil.Process().memory_info().rss)


def say(words: str) -> None:
    """Print words on progress and the load to standard error."""
    print(f"{words} (load {os.getloadavg()[0]:.1f})", file=sys.stderr, flush=True)
