"""When a budget of seconds is over."""

from __future__ import annotations

import time

from alteraser.sweep.sweep import OutOfTime


def time_limit(seconds: float) -> OutOfTime:
    """A function that tells whether so many seconds have passed since this call."""
    deadline = time.perf_counter() + seconds
    return lambda: time.perf_counter() >= deadline
