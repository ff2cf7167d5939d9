"""What default settings are compared with: implicit's ALS, and the search of `alteraser tune`."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from alteraser.data.interactions import Side
from alteraser.kernels.jit import n_threads
from alteraser.models.mf import MF
from alteraser.models.objective import Objective
from alteraser.train.als import ALS
from alteraser.tuning.search import tune
from alteraser.tuning.space import Range, SearchSpace
from evidence.store import Result
from studies.defaults_split import Split

TRIALS = 20


def tuned(split: Split) -> Result:
    """The best settings of a search with 20 trials on the training part, trained on all of it, and judged."""
    fixed = SearchSpace(dim=Range(split.dim, split.dim))
    began = time.perf_counter()
    found = tune(split.train, model="mf", space=fixed, trials=TRIALS, seed=split.seed)
    searching = time.perf_counter() - began
    best = found.best.settings
    return {
        **split.train_and_evaluate(
            Objective(w0=best["w0"], l2=best["l2"]), ALS(max_passes=found.settings["max_passes"])
        ),
        "seconds_searching": searching,
    }


def implicit(split: Split, **settings: float) -> Result:
    """implicit's ALS with as many factors as our models, its own defaults unless settings are given, and judged."""
    from implicit.cpu.als import AlternatingLeastSquares

    by_user = split.train.by(Side.USERS)
    shape = (split.train.n_users, split.train.n_items)
    matrix = sp.csr_matrix((by_user.weights, by_user.columns, by_user.starts), shape=shape)
    als: Any = AlternatingLeastSquares(
        factors=split.dim, random_state=split.seed, num_threads=n_threads(), **settings
    )
    began = time.perf_counter()
    als.fit(matrix, show_progress=False)
    seconds = time.perf_counter() - began
    users, items = (torch.from_numpy(np.asarray(each)) for each in (als.user_factors, als.item_factors))
    model = MF(users, items, Objective(w0=1.0, l2=1.0))  # scores alone are asked of it
    return {"passes": als.iterations, "seconds": seconds, **split.ndcg(model)}
