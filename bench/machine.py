"""The machine that something is measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import psutil


def processor() -> str:
    """Return the name of the processor."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def memory_bytes() -> int:
    """Return the bytes of memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def resident_bytes() -> int:
    """Return the bytes of memory that this process holds."""
    return int(psutil.Process().memory_info().rss)
