"""Unlearning one user, 64 users and 1 % of the interactions of ml-1m: ours beside what people do today.

All minimise the same objective on the same matrix with the same threads, and one function computes every loss. The
reference is the optimum on the remaining data, reached from the original by joint Newton steps in double precision.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from alteraser.data.datasets import load_dataset
from alteraser.data.interactions import Interactions, Side
from alteraser.data.requests import Requests
from alteraser.live.model import LiveModel
from alteraser.measure.agreement import rbo
from alteraser.measure.ranking import top_k
from alteraser.models.mf import MF
from alteraser.train.adamw import AdamW
from alteraser.train.als import ALS
from alteraser.train.named import TO_THE_OPTIMUM
from alteraser.unlearn.alteraser import AltEraser
from alteraser.unlearn.base import Unlearner
from alteraser.unlearn.retrain import Retrain, WarmStart
from benchmarks.requests import lowest
from benchmarks.retraining import fastest_retraining
from benchmarks.rivals import OBJECTIVE, Implicit

DIM, ROUNDS = 64, 3
OURS = "alteraser, default"
IMPLICIT_ITERATIONS = 15  # implicit's own default
LEARNING_RATES = (1e-5, 1e-4, 1e-3, 1e-2)


def measure(data_dir: str | None) -> dict[str, Any]:
    """For each size of request and each way the median seconds, the loss on the remaining data, and RBO@10."""
    data = load_dataset("ml-1m", data_dir=data_dir)
    rng = np.random.default_rng(0)
    start = MF.sized_for(data, dim=DIM, objective=OBJECTIVE, rng=rng)
    original = TO_THE_OPTIMUM.train(start, data, rng=rng).model
    return {
        "figures": [
            _case(name, original, data, requested) for name, requested in _requests(data, rng).items()
        ],
        "rounds": ROUNDS,
    }


def _requests(data: Interactions, rng: np.random.Generator) -> dict[str, Requests]:
    counts = data.by(Side.USERS).counts
    one = np.argsort(np.abs(counts - np.median(counts)), kind="stable")[:1]
    many = rng.choice(data.n_users, 64, replace=False)
    share = np.sort(rng.choice(len(data), len(data) // 100, replace=False))
    return {
        "one user": _halves(data, one, rng),
        "64 users": _halves(data, many, rng),
        "1 % of the interactions": _pairs(data, share),
    }


def _halves(data: Interactions, users: NDArray[np.int64], rng: np.random.Generator) -> Requests:
    mask = np.isin(data.users, users) & (rng.random(len(data)) < 0.5)
    return _pairs(data, np.flatnonzero(mask))


def _pairs(data: Interactions, events: NDArray[np.int64]) -> Requests:
    return Requests.pairs(
        data.user_vocabulary.ids.gather(data.users[events]),
        data.item_vocabulary.ids.gather(data.items[events]),
    )


def _case(name: str, original: MF, data: Interactions, requested: Requests) -> dict[str, Any]:
    mask = requested.match(data).mask
    remain, forget = data.without(mask), data.only(mask)
    users = forget.by(Side.USERS).occupied
    reference = lowest(original, remain)
    wanted = top_k(reference, users, 10, exclude=remain.by(Side.USERS))
    ours = AltEraser().forget(original, data, requested).model.loss(remain)
    rival = fastest_retraining(original, remain, ours, np.random.default_rng(2), rounds=ROUNDS)
    rows = []
    for way, run in _ways(original, data, requested, remain, forget).items():
        print(f"  {name}: {way}", flush=True)
        timed = [run() for _ in range(ROUNDS + 1)][1:]
        model = timed[-1][1]
        lists = top_k(model, users, 10, exclude=remain.by(Side.USERS))
        rows.append(
            {
                "way": way,
                "seconds": [seconds for seconds, _ in timed],
                "loss": model.loss(remain),
                "loss_above": model.loss(remain) - reference.loss(remain),
                "rbo": float(rbo(lists, wanted, 10).mean()),
            }
        )
    return {
        "request": name,
        "deleted": int(mask.sum()),
        "users": len(users),
        "ways": rows,
        "retraining": rival,
    }


def _ways(
    original: MF, data: Interactions, requested: Requests, remain: Interactions, forget: Interactions
) -> dict[str, Callable[[], tuple[float, MF]]]:
    def by(unlearner: Unlearner) -> Callable[[], tuple[float, MF]]:
        def run() -> tuple[float, MF]:
            erasure = unlearner.forget(original, data, requested)
            return erasure.cost.seconds, erasure.model

        return run

    def live_model() -> tuple[float, MF]:
        live = LiveModel(original, data)
        erased = live.forget(requested)
        return erased.cost.seconds, live.model

    rng = np.random.default_rng(1)
    return {
        "original": lambda: (0.0, original),
        "alteraser, live model": live_model,
        OURS: by(AltEraser()),
        "alteraser, affected": by(AltEraser(scope="affected")),
        "alteraser, all": by(AltEraser(scope="all")),
        "retraining, accelerated ALS": by(Retrain(rng, ALS())),
        "retraining, implicit": lambda: _implicit_retrained(original, remain, rng),
        "implicit partial_fit": lambda: _implicit_partial(original, remain, forget),
        "warm start, AdamW": by(_best_warm_start(original, data, requested, remain, rng)),
    }


def _best_warm_start(
    original: MF, data: Interactions, requested: Requests, remain: Interactions, rng: np.random.Generator
) -> WarmStart:
    """With the learning rate that leads to the lowest loss on this very request; the search is not timed."""
    ways = [WarmStart(rng, AdamW(learning_rate=rate)) for rate in LEARNING_RATES]
    return min(ways, key=lambda way: way.forget(original, data, requested).model.loss(remain))


def _implicit_retrained(original: MF, remain: Interactions, rng: np.random.Generator) -> tuple[float, MF]:
    """implicit's `fit` with its defaults, from new random factors."""
    with threadpool_limits(1, user_api="blas"):
        began = time.perf_counter()
        theirs = Implicit(remain, original.fresh(rng), cg=True)
        for _ in range(IMPLICIT_ITERATIONS):
            theirs.iterate()
        return time.perf_counter() - began, theirs.model


def _implicit_partial(original: MF, remain: Interactions, forget: Interactions) -> tuple[float, MF]:
    """implicit's own means: the users concerned anew, then the items concerned. Its matrices are at hand."""
    theirs = Implicit(remain, original, cg=False)
    users, items = (forget.by(side).occupied for side in (Side.USERS, Side.ITEMS))
    with threadpool_limits(1, user_api="blas"):
        began = time.perf_counter()
        theirs.partial_fit(users, items)
        return time.perf_counter() - began, theirs.model
