"""How long a command has been running, as whoever typed it sees it."""

from __future__ import annotations

import os
import time
from pathlib import Path

_BEGAN = [time.perf_counter()]


def start_clock(*, with_process: bool) -> None:
    """A command begins now, or began with its process: Python's own start and imports then count."""
    _BEGAN[0] = time.perf_counter() - (_age_of_process() if with_process else 0.0)


def wall_seconds() -> float:
    """The seconds since the command began."""
    return time.perf_counter() - _BEGAN[0]


def _age_of_process() -> float:
    """The seconds since this process was started; 0 where the system does not tell, as outside Linux."""
    try:
        # The command's name may hold brackets and blanks; of what follows it the twentieth is the start, in ticks.
        fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (AttributeError, OSError, ValueError):
        return 0.0
