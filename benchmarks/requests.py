"""One user's request: how long it takes, what it leaves, and whether the list is that of the reference.

Random users of ml-1m each delete a random half of their history, all from the same original, which is first trained
until its own gap is a thousandth of a median request's. The reference of a request is full accelerated passes from the
unlearned model to that precision; some requests are compared with retrainings from scratch, and those with each other.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alteraser.data.datasets import load_dataset
from alteraser.data.interactions import Interactions, Side
from alteraser.data.requests import Requests
from alteraser.live.erasure import Erasure
from alteraser.live.model import LiveModel
from alteraser.measure.agreement import rbo
from alteraser.measure.ranking import top_k
from alteraser.models.mf import MF
from alteraser.models.objective import Objective
from alteraser.optim.newton import ah_newton
from alteraser.sweep.joint import JointNewton
from alteraser.sweep.sweep import Model, Sweeper, repeat
from alteraser.train.als import ALS
from alteraser.train.named import TO_THE_OPTIMUM
from benchmarks.retraining import fastest_retraining

OBJECTIVE = Objective(w0=0.3, l2=0.01)
N_TIMED = 7  # rounds of requests and a retraining
LIMITS = {"p50_ms": 10.0, "gap_left": 0.03, "rbo": 0.98, "speed_up": 1000.0, "own_gap": 1e-3}


def measure(data_dir: str | None, *, n_users: int = 200, n_retrained: int = 10) -> dict[str, Any]:
    """Of each request its seconds and what it left; over all of them what was promised."""
    data = load_dataset("ml-1m", data_dir=data_dir)
    rng = np.random.default_rng(0)
    start = MF.sized_for(data, dim=64, objective=OBJECTIVE, rng=rng)
    original = TO_THE_OPTIMUM.train(start, data, rng=rng).model
    LiveModel(original, data).forget(half_of(data, 0, rng))  # compiles
    users = rng.choice(np.flatnonzero(data.by(Side.USERS).counts >= 2), n_users, replace=False)
    requests = [
        _one(original, data, int(user), rng, retrained=number < n_retrained)
        for number, user in enumerate(users)
    ]
    seconds, retraining = _in_turn(original, data, users, rng)
    opened = statistics.median(each["gap_opened"] for each in requests)
    summary = {
        "p50_ms": 1e3 * statistics.median(seconds),
        "p99_ms": 1e3 * float(np.percentile(seconds, 99)),
        "gap_left": statistics.mean(each["gap_left"] for each in requests),
        "gap_left_worst": max(each["gap_left"] for each in requests),
        "rbo": statistics.mean(each["rbo"] for each in requests),
        "rbo_original": statistics.mean(each["rbo_original"] for each in requests),
        "p50_ms_new_session": 1e3 * statistics.median(each["seconds"] for each in requests),
        "speed_up": statistics.median(speed_ups(seconds, [each["same_loss"] for each in retraining])),
        "speed_up_default": statistics.median(speed_ups(seconds, [each["default"] for each in retraining])),
        "own_gap": (original.loss(data) - lowest(original, data).loss(data)) / opened,
    }
    return {
        "summary": summary,
        "limits": LIMITS,
        "seconds": seconds,
        "retraining_seconds": retraining,
        "requests": requests,
    }


def half_of(data: Interactions, user: int, rng: np.random.Generator) -> Requests:
    """A request for a random half of a user's items."""
    by_user = data.by(Side.USERS)
    items = by_user.columns[by_user.starts[user] : by_user.starts[user + 1]]
    ids = data.item_vocabulary.ids.gather(rng.choice(items, len(items) // 2, replace=False))
    return Requests.of([{"user": data.user_vocabulary.ids[user], "items": ids.to_list()}])


def _one(
    original: MF, data: Interactions, user: int, rng: np.random.Generator, *, retrained: bool
) -> dict[str, Any]:
    live = LiveModel(original, data)
    erased = live.forget(half_of(data, user, rng))
    remain, unlearned = live.remain, live.model
    reference = lowest(unlearned, remain)
    figures = _figures(erased, original, unlearned, reference, remain, user)
    if retrained:
        first, second = (TO_THE_OPTIMUM.train(original.fresh(rng), remain, rng=rng).model for _ in range(2))
        figures["rbo_retrained"] = _rbo(unlearned, first, remain, user)
        figures["rbo_of_two_retrained"] = _rbo(first, second, remain, user)
    return figures


def _figures(
    erased: Erasure[Any], original: MF, unlearned: MF, reference: MF, remain: Interactions, user: int
) -> dict[str, Any]:
    lowest = reference.loss(remain)
    opened = original.loss(remain) - lowest
    return {
        "seconds": erased.cost.seconds,
        "deleted": erased.requests.n_forgotten,
        "rows_visited": erased.cost.rows_visited,
        "gap_opened": opened,
        "gap_left": (unlearned.loss(remain) - lowest) / opened,
        "gap_left_estimated": erased.drift.loss_gap / opened,
        "rbo": _rbo(unlearned, reference, remain, user),
        "rbo_original": _rbo(original, reference, remain, user),
    }


def lowest(model: Model, data: Interactions) -> Model:
    """Where joint Newton steps in double precision end."""
    exact = model.with_parameters({name: value.double() for name, value in model.parameters().items()})
    return repeat(
        Sweeper(ah_newton), exact, data, max_passes=20, tolerance=1e-9, acceleration=JointNewton()
    ).model


def _in_turn(
    original: MF, data: Interactions, users: NDArray[np.int64], rng: np.random.Generator
) -> tuple[list[float], list[dict[str, Any]]]:
    """The seconds of the same users' requests, one after another by one live model, and between them of retrainings."""
    live = LiveModel(original, data)
    live.forget(half_of(data, int(np.setdiff1d(np.arange(data.n_users), users)[0]), rng))
    seconds, retraining = [], []
    for some in np.array_split(users, N_TIMED):
        retraining.append(_retraining(original, data, int(some[0]), rng))
        seconds += [live.forget(half_of(data, int(user), rng)).cost.seconds for user in some]
    return seconds, retraining


def speed_ups(seconds: list[float], retraining: list[float]) -> list[float]:
    """Of each round, a retraining's seconds over the median request's."""
    rounds = zip(retraining, np.array_split(seconds, len(retraining)), strict=True)
    return [slow / float(np.median(some)) for slow, some in rounds]


def _retraining(original: MF, data: Interactions, user: int, rng: np.random.Generator) -> dict[str, Any]:
    """Seconds of the fastest retraining from scratch to the loss that unlearning reaches, and of ALS's default rule."""
    live = LiveModel(original, data)
    live.forget(half_of(data, user, rng))
    remain = live.remain
    found = fastest_retraining(original, remain, live.model.loss(remain), rng)
    began = time.perf_counter()
    ALS().train(original.fresh(rng), remain, rng=rng)
    return {**found, "same_loss": found["seconds"], "default": time.perf_counter() - began}


def _rbo(first: MF, second: MF, remain: Interactions, user: int) -> float:
    lists = [top_k(model, np.array([user]), 10, exclude=remain.by(Side.USERS)) for model in (first, second)]
    return float(rbo(lists[0], lists[1], 10)[0])
