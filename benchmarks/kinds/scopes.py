"""The default scope beside the two it chooses from, each forced to what the default reaches, and beside retraining."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from alteraser.data.interactions import Interactions
from alteraser.live.model import LiveModel
from alteraser.live.scopes import AffectedRows, AllRows
from alteraser.models.mf import MF
from alteraser.train.als import ALS
from alteraser.train.named import TO_THE_OPTIMUM
from benchmarks.kinds.reference import in_double, loss, zeroed
from benchmarks.kinds.requests import Asked
from evidence.store import Result

# The tolerances that a forced scope is tried with, until it has gained so much of what the default has.
TOLERANCES, ENOUGH = (0.6, 0.3, 0.15, 0.07, 0.03, 0.015, 0.007), 0.98
FORCED = {"affected": AffectedRows, "all": AllRows}


def compared(opened: LiveModel[MF], original: MF, asked: Sequence[Asked]) -> Result:
    """The seconds of each request by each scope, nothing where it does not come so far; and of one retraining."""
    seconds: dict[str, list[float | None]] = {"auto": [], **{name: [] for name in FORCED}}
    retraining = None
    for each in asked:
        live = copy.deepcopy(opened)
        seconds["auto"].append(live.forget(each.requests).cost.seconds)
        remain, reached = live.remain, live.model
        before, after = loss(zeroed(original, remain), remain), loss(in_double(reached), remain)
        wanted = before - ENOUGH * (before - after)
        for name in FORCED:
            seconds[name].append(_forced(opened, name, each, wanted, remain))
        if retraining is None:
            retraining = _retraining(original, remain, after)
    return {"seconds": seconds, "retraining": retraining}


def _forced(
    opened: LiveModel[MF], name: str, asked: Asked, wanted: float, remain: Interactions
) -> float | None:
    """The seconds with the loosest tolerance that reaches the wanted loss."""
    for tolerance in TOLERANCES:
        live = copy.deepcopy(opened)
        held: Any = live
        held._scope = FORCED[name](tolerance)  # a live model has no setting for it: it chooses
        took = live.forget(asked.requests).cost.seconds
        if loss(in_double(live.model), remain) <= wanted:
            return took
    return None


def _retraining(original: MF, remain: Interactions, goal: float) -> float:
    """The seconds of retraining from random rows to a loss: by accelerated passes or joint Newton, the faster."""
    start, found = original.fresh(np.random.default_rng(5)), []
    for acceleration in (ALS().acceleration, TO_THE_OPTIMUM.acceleration):
        trainer = ALS(max_passes=1000, tolerance=1e-9, acceleration=acceleration, loss_goal=goal)
        began = time.perf_counter()
        trainer.train(start, remain, rng=None)
        found.append(time.perf_counter() - began)
    return min(found)
