"""How time and memory grow with the data: generated data with real shape, and a real set.

Each size runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from alteraser.data.files import read_interactions
from alteraser.data.interactions import Interactions, Side
from alteraser.models.mf import MF
from alteraser.models.objective import Objective
from alteraser.optim.newton import ah_newton
from alteraser.sweep.sweep import Rows, Sweeper
from alteraser.train.als import ALS
from alteraser.unlearn.eraser import Eraser
from benchmarks.generated import generated
from benchmarks.requests import half_of

MILLIONS = (1, 3, 10, 30, 100)
REAL = "amazon-book-kgat"
LIMITS = {"p50_growth_to_30": 1.5, "memory": 4.0}
DIM, PASSES, N_REQUESTS = 64, 12, 200


def measure(data_dir: str | None, *, millions: tuple[int, ...] = MILLIONS) -> dict[str, Any]:
    """A record for each size, and how p50 moved from the smallest to 30 million."""
    figures: list[dict[str, Any]] = []
    for size in (*map(str, millions), REAL):
        print(f"  {size} …", flush=True)
        audience = figures[0]["audience"] if figures else None
        command = [
            sys.executable,
            "-m",
            "benchmarks.scaling",
            size,
            str(data_dir or ""),
            json.dumps(audience),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
        if done.returncode != 0:
            figures.append({"size": size, "failed": done.stderr.strip().splitlines()[-1:]})
            continue
        figures.append(json.loads(done.stdout.splitlines()[-1]))
    p50 = {each["size"]: each["p50_ms"] for each in figures if "p50_ms" in each}
    growth = p50["30"] / p50["1"] if {"1", "30"} <= set(p50) else None
    return {"figures": figures, "p50_growth_to_30": growth, "limits": LIMITS}


def _record(size: str, data_dir: str | None, audience: float | None) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    data = _real(data_dir) if size == REAL else generated(int(size) * 10**6, rng)
    before = _peak()
    began = time.perf_counter()
    for side in Side:
        data.by(side)
    indexing = time.perf_counter() - began
    model = MF.sized_for(data, dim=DIM, objective=Objective(w0=0.1, l2=0.02), rng=rng)
    trained = ALS(max_passes=PASSES, tolerance=0, acceleration=None).train(model, data, rng=rng).model
    held = data.events.estimated_size() + sum(trained.table(side).nbytes for side in Side)
    peak = _peak()
    passes = []
    for _ in range(3):
        began = time.perf_counter()
        Sweeper(ah_newton).sweep(trained, data, Rows.occupied(data))
        passes.append(time.perf_counter() - began)
    users, typical = _users(data, rng, audience)
    eraser = Eraser(trained, data, drift_limit=np.inf)
    seconds = [eraser.forget(half_of(data, int(user), rng)).seconds for user in users][20:]
    return {
        "size": size,
        "interactions": len(data),
        "users": data.n_users,
        "items": data.n_items,
        "seconds_indexing": indexing,
        "seconds_per_pass": statistics.median(passes),
        "p50_ms": 1e3 * statistics.median(seconds),
        "p99_ms": 1e3 * float(np.percentile(seconds, 99)),
        "audience": typical,
        "peak_gb_before": before / 1e9,
        "peak_gb": peak / 1e9,
        "peak_over_held": peak / held,
        "peak_gb_with_session": _peak() / 1e9,
    }


def _real(data_dir: str | None) -> Interactions:
    folder = Path(data_dir or os.environ["ALTERASER_DATA"])
    return read_interactions(folder / REAL / "interactions.parquet", user="user_id", item="item_id")


def _users(data: Interactions, rng: np.random.Generator, audience: float | None) -> tuple[Any, float]:
    """Users of middling history whose items have together about the audience asked for; and what theirs is."""
    by_user, of_item = data.by(Side.USERS), data.by(Side.ITEMS).counts
    able = rng.permutation(np.flatnonzero((by_user.counts >= 40) & (by_user.counts <= 80)))[:20_000]
    total = np.array(
        [of_item[by_user.columns[by_user.starts[u] : by_user.starts[u + 1]]].sum() for u in able]
    )
    wanted = float(np.median(total)) if audience is None else audience
    nearest = np.argsort(np.abs(total - wanted), kind="stable")[: N_REQUESTS + 20]
    return rng.permutation(able[nearest]), float(np.median(total[nearest]))


def _peak() -> int:
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * 1024


if __name__ == "__main__":
    size, data_dir, audience = sys.argv[1:4]
    print(json.dumps(_record(size, data_dir or None, json.loads(audience))))
