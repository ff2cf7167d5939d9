"""One account in a live model of 256 million interactions, beside the same of one million: memory and time.

Each size runs in a process of its own, and each one's result is kept when it is there: an interrupted run goes on with
what is missing, unless the code has changes that no commit holds. It takes hours and is not run unless it is named.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from alteraser.data.interactions import Interactions, Side
from alteraser.data.requests import Requests
from alteraser.errors import DataError
from alteraser.live.model import LiveModel
from alteraser.models.mf import MF
from alteraser.models.objective import Objective
from alteraser.train.als import ALS
from benchmarks.generated import generated
from benchmarks.memory import peak_bytes
from benchmarks.scaling import users_alike
from evidence.revision import DIRTY
from evidence.store import Store

MILLIONS = (1, 256)
LIMITS = {"peak_gb": 13.0, "p50_growth": 2.0}
DIM, PASSES, N_ACCOUNTS, WARM = 64, 6, 100, 5
OBJECTIVE = Objective(w0=0.1, l2=0.02)
PARTS = "huge-parts"


def measure(
    data_dir: str | None, *, millions: tuple[int, ...] = MILLIONS, folder: Path | None = None
) -> dict[str, Any]:
    """A record for each size, and how the median account of the last compares with that of the first."""
    del data_dir
    store = Store(folder or Path(__file__).parent / "results" / PARTS)
    store.create()
    figures = []
    for size in map(str, millions):
        kept = _kept(store, size)
        if kept is None:
            print(f"  {size} million …", flush=True)
            kept = store.stamped(_in_own_process(size))
            store.write(size, kept)
        figures.append(kept)
    growth = figures[-1]["p50_ms"] / figures[0]["p50_ms"]
    return {"figures": figures, "p50_growth": growth, "limits": LIMITS}


def _kept(store: Store, size: str) -> dict[str, Any] | None:
    """What this code measured of a size before; None where there is nothing, or it may have been other code."""
    if store.commit is None or store.commit.endswith(DIRTY) or not store.has(size):
        return None
    try:
        kept = store.read(size)
    except DataError:
        return None
    return kept if kept.get("commit") == store.commit else None


def _in_own_process(size: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.huge", size]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def record(millions: float, *, n_accounts: int = N_ACCOUNTS, dim: int = DIM) -> dict[str, Any]:
    """Memory and seconds of all that happens to one size: data, training, and accounts that are forgotten."""
    rng = np.random.default_rng(0)
    _live(generated(10**4, rng), rng, dim)  # compiles
    base, clock = peak_bytes(), _Clock()
    data = generated(int(millions * 10**6), rng)
    clock.lap("generating")
    for side in Side:
        data.by(side)
    clock.lap("indexing")
    live = _live(data, rng, dim)
    clock.lap("training and opening")
    seconds = []
    users, audience = users_alike(data, n_accounts + WARM)
    for number, user in enumerate(rng.permutation(users)):
        erased = live.forget(Requests.of([{"user": data.user_vocabulary.ids[int(user)]}]))
        if number >= WARM:
            seconds.append(erased.cost.seconds)
    return {
        "millions": millions,
        "interactions": len(data),
        "users": data.n_users,
        "items": data.n_items,
        "seconds": clock.laps,
        "audience": audience,
        "p50_ms": 1e3 * statistics.median(seconds),
        "p99_ms": 1e3 * float(np.percentile(seconds, 99)),
        "base_gb": base / 1e9,
        "peak_gb": peak_bytes() / 1e9,
    }


def _live(data: Interactions, rng: np.random.Generator, dim: int) -> LiveModel[MF]:
    start = MF.sized_for(data, dim=dim, objective=OBJECTIVE, rng=rng)
    trained = ALS(max_passes=PASSES, tolerance=0, acceleration=None).train(start, data, rng=rng).model
    return LiveModel(trained, data, drift_limit=math.inf)


class _Clock:
    """Seconds from one lap to the next."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = now - self._last
        self._last = now
        print(
            f"    {name}: {self.laps[name]:.1f} s, {peak_bytes() / 1e9:.2f} GB", file=sys.stderr, flush=True
        )


if __name__ == "__main__":
    print(json.dumps(record(float(sys.argv[1]))))
