"""Ten thousand requests one after another by one live model, on generated data: drift, memory and time.

The requests are made twice: once for times and memory, and once more for the true drift, whose computation would
disturb both.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions, Side
from alteraser.data.requests import Requests
from alteraser.live.model import LiveModel
from alteraser.models.mf import MF
from alteraser.models.objective import Objective
from alteraser.train.als import ALS
from benchmarks.gap import GRADIENT_LEFT, true_gap
from benchmarks.generated import generated
from benchmarks.memory import resident_bytes
from benchmarks.requests import half_of

DRIFT_LIMIT = 1e-4
LIMITS = {
    "last_over_first": 1.2,
    "memory_growth": 1.05,
    "largest_drift": DRIFT_LIMIT,
    "largest_true_drift": DRIFT_LIMIT,
}
N_MOMENTS = 5
NEAR_LIMIT = 0.9
"""The true drift is computed where the estimate is above this share of its limit."""


def measure(
    data_dir: str | None, *, n_requests: int = 10_000, n_interactions: int = 1_000_000, dim: int = 64
) -> dict[str, Any]:
    """The seconds, estimated drift and memory of every request, and the true drift where the estimate stands high."""
    del data_dir
    rng = np.random.default_rng(0)
    data = generated(n_interactions, rng)
    start = MF.sized_for(data, dim=dim, objective=Objective(w0=0.1, l2=0.02), rng=rng)
    trained = ALS(max_passes=300, tolerance=1e-8).train(start, data, rng=rng).model
    users = rng.choice(np.flatnonzero(data.by(Side.USERS).counts >= 4), n_requests, replace=False)
    found = _timed(trained, data, users)
    after = moments_of(found.pop("drift"), DRIFT_LIMIT)
    moments = _true_drift(trained, data, users, after)
    found["summary"]["largest_true_drift"] = max(each["true"] for each in moments)
    return {
        "requests": n_requests,
        "interactions": len(data),
        **found,
        "moments": moments,
        "moments_above": NEAR_LIMIT,
        "gradient_left": GRADIENT_LEFT,
        "limits": LIMITS,
    }


def _requests(data: Interactions, users: NDArray[np.int64]) -> Iterator[Requests]:
    """The same requests each time: of every user half of the history."""
    rng = np.random.default_rng(1)
    return (half_of(data, int(user), rng) for user in users)


def _timed(trained: MF, data: Interactions, users: NDArray[np.int64]) -> dict[str, Any]:
    """Seconds, estimated drift and memory."""
    live, loss = LiveModel(trained, data, drift_limit=DRIFT_LIMIT), trained.loss(data)
    seconds, drift, cleaned, memory = [], [], 0, []
    for number, request in enumerate(_requests(data, users)):
        erased = live.forget(request)
        seconds.append(erased.cost.seconds)
        drift.append(erased.drift.loss_gap / loss)
        cleaned += erased.cleaned_up
        if number % 100 == 0:
            memory.append(resident_bytes())
            print(f"  {number} of {len(users)}", flush=True)
    share = len(users) // 10
    first, last = seconds[share // 10 :][:share], seconds[-share:]
    return {
        "summary": {
            "last_over_first": sum(last) / sum(first),
            "memory_growth": memory[-1] / memory[share // 100],
            "largest_drift": max(drift),
            "p50_ms": 1e3 * statistics.median(seconds),
            "p99_ms": 1e3 * float(np.percentile(seconds, 99)),
            "clean_ups": cleaned,
        },
        "seconds_by_hundred": [sum(seconds[at : at + 100]) for at in range(0, len(users), 100)],
        "drift": drift,
        "drift_by_hundred": drift[::100],
        "memory_by_hundred": memory,
    }


def moments_of(drift: Sequence[float], limit: float) -> list[int]:
    """After how many requests the true drift is computed: one moment in each fifth of the sequence.

    It is the first at which the timed run estimated the drift to be near its limit, or, where it never did, that of the
    highest estimate: right after a clean-up there is little to see.
    """
    moments = []
    for part in np.array_split(np.arange(len(drift)), N_MOMENTS):
        near = [at for at in part if drift[at] > NEAR_LIMIT * limit]
        moments.append(1 + int(near[0] if near else max(part, key=lambda at: drift[at])))
    return moments


def _true_drift(
    trained: MF, data: Interactions, users: NDArray[np.int64], after: Sequence[int]
) -> list[dict[str, float]]:
    """The true and the estimated gap as shares of the loss, before any request and after so many of them."""
    live, loss = LiveModel(trained, data, drift_limit=DRIFT_LIMIT), trained.loss(data)
    moments = [{"after": 0, "true": true_gap(live) / loss, "estimate": 0.0}]
    for number, request in enumerate(_requests(data, users[: max(after)]), start=1):
        estimate = live.forget(request).drift.loss_gap / loss
        if number in after:
            moments.append({"after": number, "true": true_gap(live) / loss, "estimate": estimate})
            print(f"  after {number}: true drift {moments[-1]['true']:.2e}", flush=True)
    return moments
