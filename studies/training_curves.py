"""How good lists are after so many seconds of training, ours and implicit's, each with the best of its grid."""

from __future__ import annotations

import statistics
import time
from itertools import takewhile

import numpy as np

from alteraser.models.kernel_warm_up import warm_up_for
from alteraser.models.objective import Objective
from alteraser.train.als import ALS
from alteraser.tuning.choose import choose_objective
from evidence.store import Result
from studies.defaults_rivals import implicit
from studies.defaults_split import Split

PASSES = (1, 2, 4, 8, 16, 32, 64, 128)
ROUNDS = 3


def training_curves(split: Split, ours: Result, theirs: Result) -> Result:
    """NDCG@10 and the median seconds of trainings with 1, 2, 4 … passes, the last as long as ours takes to converge.

    Each length is trained by both in turn, several times. `ours` and `theirs` hold the settings. What choosing settings
    costs beside training with them is measured, too.
    """
    objective = Objective(w0=ours["w0"], l2=ours["l2"])
    settings = {name: theirs[name] for name in ("alpha", "regularization")}
    warm_up_for(split.untrained(objective))
    n_passes = split.train_and_evaluate(objective)["passes"]
    lengths = [*takewhile(lambda each: each < n_passes, PASSES), n_passes]
    curves: dict[str, list[Result]] = {"ours": [], "implicit": []}
    for length in lengths:
        rounds = [
            {
                "ours": split.train_and_evaluate(objective, ALS(max_passes=length)),
                "implicit": implicit(split, iterations=length, **settings),
            }
            for _ in range(ROUNDS)
        ]
        for name, points in curves.items():
            seconds = statistics.median(each[name]["seconds"] for each in rounds)
            points.append({**rounds[0][name], "seconds": seconds})
    return {**curves, **_cost_of_choosing(split)}


def _cost_of_choosing(split: Split) -> Result:
    """The median seconds of choosing settings, and of training with them."""
    choosing, training = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        choice = choose_objective(split.train, dim=split.dim, rng=np.random.default_rng([split.seed, 4]))
        choosing.append(time.perf_counter() - began)
        training.append(split.train_and_evaluate(choice.objective)["seconds"])
    return {
        "seconds_choosing": statistics.median(choosing),
        "seconds_training": statistics.median(training),
    }
