"""`python operations.py FOLDER`: what users do, in a process of its own; prints which kernels it made anew, as JSON.

Kernels are found by looking into every module of `alteraser.kernels`, not by the list that a warm-up goes by.
"""

from __future__ import annotations

import json
import pkgutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numba.core.dispatcher import Dispatcher

import alteraser
import alteraser.kernels
from alteraser import MF, SOLVERS, AltEraser, Interactions, LiveModel, Objective, Requests, Retrain, WarmStart

PRECISIONS = (torch.float32, torch.float64)


def dispatchers() -> dict[str, Any]:
    """Every function in `alteraser.kernels` that numba compiles."""
    found = {}
    for module in pkgutil.iter_modules(alteraser.kernels.__path__, "alteraser.kernels."):
        for name, value in vars(import_module(module.name)).items():
            if isinstance(value, Dispatcher):
                found[f"{module.name}.{name}"] = value
    return found


def signatures() -> dict[str, set[str]]:
    return {name: set(map(str, each.signatures)) for name, each in dispatchers().items()}


def table(*, weighted: bool) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    matrix = rng.random((40, 25)) < 0.3
    matrix[4, 5] = True
    users, items = np.nonzero(matrix)
    columns = {"user_id": [f"u{user}" for user in users], "item_id": [f"i{item}" for item in items]}
    return pl.DataFrame(columns | {"weight": rng.uniform(0.1, 3, len(users))} if weighted else columns)


REQUESTS = Requests.of([{"user": "u3"}, {"user": "u4", "item": "i5"}, {"item": "i7"}])


def train_and_forget(data: Interactions, kind: type[Any], dtype: torch.dtype, objective: Objective) -> None:
    rng = np.random.default_rng(0)
    start = kind.sized_for(data, dim=5, rng=rng, dtype=dtype, objective=objective)
    original = alteraser.fit(start, data).model
    for acceleration in (None, alteraser.JointNewton()):
        alteraser.fit(
            start, data, trainer=alteraser.ALS(10, acceleration=acceleration, solve_shared=kind is not MF)
        )
    alteraser.fit(start, data, trainer=alteraser.AdamW(max_epochs=2), rng=rng)
    for unlearner in (Retrain(rng), WarmStart(rng, alteraser.AdamW(max_epochs=2))):
        erasure = unlearner.forget(original, data, REQUESTS)
    for scope in ("forgetting", "affected", "all", alteraser.AllRows(training_gap=0.5)):
        erasure = AltEraser(scope).forget(original, data, REQUESTS)
        AltEraser(scope).forget(erasure.model, erasure.remain, Requests.of([{"user": "u5"}]))
    for solver in (SOLVERS[name] for name in ("ah-newton", "hf-newton", "l-bfgs")):
        AltEraser(alteraser.Passes(solver, max_passes=2)).forget(original, data, REQUESTS)
        AltEraser(alteraser.ForgettingRows(solver)).forget(original, data, REQUESTS)
    live = LiveModel(original, data, drift_limit=1e-9)
    for number in range(8, 20):
        live.forget([{"user": f"u{number}"}])
    live.clean_up()
    _ = live.model.loss(live.remain), live.model.gradient_norm(live.remain)


def narrow(data: Interactions, dtype: torch.dtype) -> None:
    """Vectors with dimensions that take no part in scores, and one that stopped short of its optimum."""
    start = MF.sized_for(data, dim=3, rng=np.random.default_rng(0), dtype=dtype)
    original = alteraser.fit(start, data, trainer=alteraser.ALS(2)).model
    users, items = (torch.nn.functional.pad(each, (0, 2)) for each in (original.users, original.items))
    wide = MF(users, items, original.objective)
    for scope in ("affected", "all"):
        AltEraser(scope).forget(wide, data, REQUESTS)


def versions(folder: Path, data: Interactions, dtype: torch.dtype) -> None:
    """What comes from files, where memory may be read-only."""
    start = alteraser.ENMF.sized_for(data, dim=4, rng=np.random.default_rng(0), dtype=dtype)
    alteraser.Version.of(alteraser.fit(start, data).model, data).save(folder / "model", force=True)
    version = alteraser.load_version(folder / "model")
    following, _ = version.forget(version.read(folder / "weighted.parquet"), REQUESTS)
    version.recommender.recommend("u1")
    alteraser.compact(following)
    model = version.model
    assert isinstance(model, alteraser.ENMF)
    LiveModel(model, version.aligned(data)).forget([{"item": "i3"}])


def main(folder: Path) -> None:
    alteraser.warm_up()
    before = signatures()
    for weighted in (False, True):
        file = folder / ("weighted.parquet" if weighted else "plain.csv")
        written = table(weighted=weighted)
        written.write_parquet(file) if weighted else written.write_csv(file)
        data = alteraser.read_interactions(file, weight="weight" if weighted else None)
        objective = Objective(w0=0.3, l2=0.05)
        if weighted:
            objective = Objective(
                w0=0.1,
                l2=0.02,
                user_activity=0.5,
                item_popularity=0.3,
                mean_user_count=7.0,
                mean_item_count=12.0,
            )
        for dtype in PRECISIONS:
            for kind in (MF, alteraser.ENMF):
                train_and_forget(data, kind, dtype, objective)
            narrow(data, dtype)
    for dtype in PRECISIONS:
        versions(folder, data, dtype)
    after = signatures()
    made = {name: sorted(after[name] - before[name]) for name in after if after[name] - before[name]}
    sys.stdout.write(json.dumps({"n_kernels": len(before), "made": made}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
