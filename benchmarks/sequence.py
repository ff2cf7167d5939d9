"""Ten thousand requests one after another by one live model, on generated data: drift, memory and time."""

from __future__ import annotations

import resource
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from alteraser.data.interactions import Side
from alteraser.live.model import LiveModel
from alteraser.models.mf import MF
from alteraser.models.objective import Objective
from alteraser.train.als import ALS
from benchmarks.generated import generated
from benchmarks.requests import half_of

LIMITS = {"last_over_first": 1.2, "memory_growth": 1.05}
DRIFT_LIMIT = 1e-4


def measure(
    data_dir: str | None, *, n_requests: int = 10_000, n_interactions: int = 1_000_000
) -> dict[str, Any]:
    """The seconds, drift and memory of every request, and how near the estimated drift came to the true one."""
    del data_dir
    rng = np.random.default_rng(0)
    data = generated(n_interactions, rng)
    start = MF.sized_for(data, dim=64, objective=Objective(w0=0.1, l2=0.02), rng=rng)
    trained = ALS(max_passes=300, tolerance=1e-8).train(start, data, rng=rng).model
    loss = trained.loss(data)
    live = LiveModel(trained, data, drift_limit=DRIFT_LIMIT)
    users = rng.choice(np.flatnonzero(data.by(Side.USERS).counts >= 4), n_requests, replace=False)
    seconds, drift, cleaned, memory = [], [], 0, []
    for number, user in enumerate(users):
        erased = live.forget(half_of(data, int(user), rng))
        seconds.append(erased.cost.seconds)
        drift.append(erased.drift.loss_gap / loss)
        cleaned += erased.cleaned_up
        if number % 100 == 0:
            memory.append(_resident())
            print(f"  {number} of {n_requests}", flush=True)
    first, last = seconds[100:1100], seconds[-1000:]
    return {
        "requests": n_requests,
        "interactions": len(data),
        "summary": {
            "last_over_first": sum(last) / sum(first),
            "memory_growth": memory[-1] / memory[10],
            "largest_drift": max(drift),
            "p50_ms": 1e3 * statistics.median(seconds),
            "p99_ms": 1e3 * float(np.percentile(seconds, 99)),
            "clean_ups": cleaned,
        },
        "limits": LIMITS | {"largest_drift": DRIFT_LIMIT},
        "seconds_by_hundred": [sum(seconds[at : at + 100]) for at in range(0, n_requests, 100)],
        "drift_by_hundred": drift[::100],
        "memory_by_hundred": memory,
    }


def _resident() -> int:
    """Bytes of memory the process holds now."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()
