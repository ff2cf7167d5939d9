"""64 users at once, on each of the paper's data sets: the rows they affect against passes over everybody's."""

from __future__ import annotations

from typing import Any

import numpy as np

from alteraser.data.datasets import load_dataset
from alteraser.data.interactions import Side
from alteraser.data.split import holdout, privacy_requests
from alteraser.measure.agreement import rbo as agreement
from alteraser.measure.compare import FORGETTING, compare
from alteraser.measure.ranking import top_k
from alteraser.models.mf import MF
from alteraser.train.named import TO_THE_OPTIMUM
from alteraser.unlearn.alteraser import AltEraser
from benchmarks.retraining import fastest_retraining
from benchmarks.timing import median_ratio
from studies.settings import chosen_settings, paper_datasets

LIMITS = {"ratio": 0.5, "rbo_below": 0.01}
SCOPES = {"affected": AltEraser(scope="affected"), "all": AltEraser(scope="all")}


def measure(data_dir: str | None, *, rounds: int = 5) -> dict[str, Any]:
    """Of each data set the seconds of both in turn, their agreement with retraining, and their losses."""
    return {"figures": [_on(name, data_dir, rounds) for name in paper_datasets()], "limits": LIMITS}


def _on(name: str, data_dir: str | None, rounds: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    settings = chosen_settings(name, "converged")
    full, test = holdout(load_dataset(name, data_dir=data_dir), rng=rng)
    requested = privacy_requests(full, rng=rng)
    fresh = MF.sized_for(full, dim=settings.dim, objective=settings.objective(), rng=rng)
    original = TO_THE_OPTIMUM.train(fresh, full, rng=rng).model
    erasures = {scope: eraser.forget(original, full, requested) for scope, eraser in SCOPES.items()}
    remain = erasures["all"].remain
    retrained = TO_THE_OPTIMUM.train(original.fresh(rng), remain, rng=rng).model
    mask = requested.match(full).mask
    users = full.only(mask).by(Side.USERS).occupied
    models = {scope: erasure.model for scope, erasure in erasures.items()}
    report = compare(
        {"original": original, "retrained": retrained, **models},
        test=test,
        remain=remain,
        forget=full.only(mask),
        reference="retrained",
    )
    seconds: dict[str, list[float]] = {scope: [] for scope in SCOPES}
    for _ in range(rounds):
        for scope, eraser in SCOPES.items():
            seconds[scope].append(eraser.forget(original, full, requested).cost.seconds)
    rivals = {
        scope: fastest_retraining(original, remain, model.loss(remain), rng, rounds=rounds)
        for scope, model in models.items()
    }
    lists = {name: top_k(model, users, 10, exclude=remain.by(Side.USERS)) for name, model in models.items()}
    wanted = top_k(retrained, users, 10, exclude=remain.by(Side.USERS))
    median = {name: float(np.median(agreement(some, wanted, 10))) for name, some in lists.items()}
    rbo = {model: report.values[model][FORGETTING]["rbo"][10] for model in ("original", *models)}
    return {
        "dataset": name,
        "seconds": seconds,
        "ratio": median_ratio(seconds, "affected", "all"),
        "rbo": rbo,
        "rbo_median": median,
        "loss": {"original": original.loss(remain), "retrained": retrained.loss(remain)}
        | {scope: model.loss(remain) for scope, model in models.items()},
        "retraining": rivals,
        "rows_visited": {scope: erasure.cost.rows_visited for scope, erasure in erasures.items()},
    }
