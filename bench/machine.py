"""The machine that something is measured on."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path


def processor() -> str:
    """Return the name of the processor."""
    known = Path("/proc/cpuinfo")
    if not known.exists():
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in known.read_text().splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor()


def memory() -> int:
    """Return the bytes of memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def resident() -> int:
    """Return the bytes of memory that this process has; where the system does not tell, the most that it had."""
    known = Path("/proc/self/statm")
    if known.exists():
        return int(known.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import resource  # the system that has no such file may have no such module

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def load() -> float:
    """Return the load average of the last minute."""
    return os.getloadavg()[0]
