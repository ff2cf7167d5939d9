"""How much memory this process holds, and has held."""

from __future__ import annotations

import resource
from pathlib import Path


def peak_bytes() -> int:
    """The most that the process has held so far."""
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * 1024


def resident_bytes() -> int:
    """What it holds now."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()
