"""How time and memory grow with the data: generated data with real shape, and a real set.

Each size runs in a process of its own, which reads the data from a file, so that its peak memory is that of indexing
and training.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from alteraser.data.files import read_interactions
from alteraser.data.interactions import Interactions, Side, Vocabulary
from alteraser.live.model import LiveModel
from alteraser.models.mf import MF
from alteraser.models.objective import Objective
from alteraser.optim.newton import ah_newton
from alteraser.sweep.sweep import Rows, Sweeper
from alteraser.train.als import ALS
from benchmarks.generated import generated
from benchmarks.memory import peak_bytes
from benchmarks.requests import half_of

MILLIONS = (1, 3, 10, 30, 100)
REAL = "amazon-book-kgat"
LIMITS = {"p50_growth_to_30": 1.5, "memory": 4.0}
GROWTH = ("1", "30")
DIM, PASSES, N_REQUESTS, WARM, TURN = 64, 6, 200, 20, 20
OBJECTIVE = Objective(w0=0.1, l2=0.02)
HISTORY, AUDIENCE = (40, 80), 45_000  # interactions of a user who asks, and entries of all their items
_BLOCK = 50_000  # users looked at at once; bounds the memory


def measure(data_dir: str | None, *, millions: tuple[int, ...] = MILLIONS) -> dict[str, Any]:
    """A record for each size, and how the median request of the first grew to that of 30 million, both in turn.

    How it grew from one process to another the page computes from the records.
    """
    figures: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for size in (*map(str, millions), REAL):
            print(f"  {size} …", flush=True)
            file = Path(folder) / f"{size}.parquet"
            if size == REAL:
                real = Path(data_dir or os.environ["ALTERASER_DATA"]) / REAL / "interactions.parquet"
                file.symlink_to(real.absolute())
            else:
                _in_own_process("write", size, file)
            figures.append(_in_own_process("record", size, file))
        compared = (Path(folder) / f"{size}.parquet" for size in GROWTH)
        growth = _in_own_process("growth", *GROWTH, *compared)
    return {"figures": figures, "growth": growth, "limits": LIMITS}


def _in_own_process(task: str, *arguments: str | Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.scaling", task, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    if done.returncode != 0:
        return {"size": str(arguments[0]), "failed": done.stderr.strip().splitlines()[-1:] or done.returncode}
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def _write(size: str, file: str) -> dict[str, Any]:
    data = generated(int(size) * 10**6, np.random.default_rng(0))
    data.events.write_parquet(file)
    return {"size": size, "interactions": len(data)}


def _read(size: str, file: str) -> Interactions:
    if size == REAL:
        return read_interactions(Path(file), any_rating=True)
    events = pl.read_parquet(file)
    users, items = (Vocabulary(pl.Series(np.arange(events[:, side].to_numpy().max() + 1))) for side in (0, 1))
    return Interactions(events, users, items)


def _record(size: str, file: str) -> dict[str, Any]:
    """Seconds and memory of indexing and training; the trained tables go to a file beside the data."""
    rng = np.random.default_rng(0)
    small = generated(10**4, rng)
    _trained(small, rng)  # compiles
    base = peak_bytes()
    data = _read(size, file)
    began = time.perf_counter()
    for side in Side:
        data.by(side)
    indexing = time.perf_counter() - began
    trained = _trained(data, rng)
    held = data.events.estimated_size() + sum(trained.table(side).nbytes for side in Side)
    peak = peak_bytes()
    passes = []
    for _ in range(3):
        began = time.perf_counter()
        Sweeper(ah_newton).sweep(trained, data, Rows.occupied(data))
        passes.append(time.perf_counter() - began)
    np.savez(f"{file}.npz", users=trained.users.numpy(), items=trained.items.numpy())
    asked = _Requests(trained, data, rng)
    asked.answer(N_REQUESTS)
    return {
        "size": size,
        "interactions": len(data),
        "users": data.n_users,
        "items": data.n_items,
        "seconds_indexing": indexing,
        "seconds_per_pass": statistics.median(passes),
        "p50_ms": 1e3 * statistics.median(asked.seconds),
        "p99_ms": 1e3 * float(np.percentile(asked.seconds, 99)),
        "audience": asked.audience,
        "base_gb": base / 1e9,
        "peak_gb": peak / 1e9,
        "peak_over_held": (peak - base) / held,
        "peak_gb_with_live_model": peak_bytes() / 1e9,
    }


def _growth(small: str, large: str, *files: str) -> dict[str, Any]:
    """Requests to two sizes in turn, some at a time, so that both meet the machine in the same mood."""
    rng = np.random.default_rng(0)
    askers = []
    for size, file in zip((small, large), files, strict=True):
        data, tables = _read(size, file), np.load(f"{file}.npz")
        model = MF.sized_for(data, dim=DIM, objective=OBJECTIVE, rng=rng)
        trained = model.with_parameters({name: torch.from_numpy(tables[name]) for name in tables.files})
        askers.append(_Requests(trained, data, rng))
    for _ in range(N_REQUESTS // TURN):
        for asked in askers:
            asked.answer(TURN)
    p50 = [1e3 * statistics.median(asked.seconds) for asked in askers]
    return {"p50_ms": p50, "audience": [asked.audience for asked in askers], "growth": p50[1] / p50[0]}


def _trained(data: Interactions, rng: np.random.Generator) -> MF:
    model = MF.sized_for(data, dim=DIM, objective=OBJECTIVE, rng=rng)
    return ALS(max_passes=PASSES, tolerance=0, acceleration=None).train(model, data, rng=rng).model


def users_alike(data: Interactions, n: int) -> tuple[NDArray[np.int64], float]:
    """So many users of middling history whose items have together about the same audience at every size, and which."""
    by_user, of_item = data.by(Side.USERS), data.by(Side.ITEMS).counts
    able = np.flatnonzero((by_user.counts >= HISTORY[0]) & (by_user.counts <= HISTORY[1]))
    audiences = []
    for some in np.array_split(able, len(able) // _BLOCK + 1):
        starts = np.cumsum(by_user.counts[some]) - by_user.counts[some]
        entries = by_user.columns[by_user.entries_of(some)]
        audiences.append(np.add.reduceat(of_item[entries], starts))
    total = np.concatenate(audiences)
    nearest = np.argsort(np.abs(total - AUDIENCE), kind="stable")[:n]
    return able[nearest], float(np.median(total[nearest]))


class _Requests:
    """Requests by users of middling history whose items have together about the same audience at every size."""

    def __init__(self, model: MF, data: Interactions, rng: np.random.Generator) -> None:
        users, self.audience = users_alike(data, N_REQUESTS + WARM)
        self.seconds: list[float] = []
        self._requests = [half_of(data, int(user), rng) for user in rng.permutation(users)]
        self._live = LiveModel(model, data, drift_limit=math.inf)
        self.answer(WARM)
        self.seconds.clear()

    def answer(self, n: int) -> None:
        for _ in range(n):
            self.seconds.append(self._live.forget(self._requests.pop()).cost.seconds)


if __name__ == "__main__":
    task, *arguments = sys.argv[1:]
    tasks: dict[str, Callable[..., dict[str, Any]]] = {"write": _write, "record": _record, "growth": _growth}
    print(json.dumps(tasks[task](*arguments)))
