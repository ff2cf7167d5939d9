"""Retrainings that end at the loss of a model that forgot: the rivals of its speed. Studies and benchmarks share them.

Unlearning is judged by the fastest of them, since whoever may retrain will take that one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from alteraser.data.interactions import Interactions
from alteraser.data.requests import Missing, Requests
from alteraser.live.erasure import Erasure
from alteraser.optim.newton import cg_newton
from alteraser.sweep.accelerate import Anderson
from alteraser.sweep.sweep import Model, Progress
from alteraser.train.als import ALS
from alteraser.train.base import Training
from alteraser.train.named import TO_THE_OPTIMUM
from alteraser.unlearn.base import retrain_by

PASSES, NEWTON, CG = "accelerated ALS", "joint Newton", "accelerated ALS by conjugate gradients"
TRAINERS: dict[str, ALS] = {
    PASSES: replace(TO_THE_OPTIMUM, acceleration=Anderson()),
    NEWTON: TO_THE_OPTIMUM,
    CG: replace(TO_THE_OPTIMUM, acceleration=Anderson(), solver=cg_newton),
}
"""Every way to retrain to a given loss that we know to be the fastest somewhere."""
_SAME = 1 + 1e-9  # losses that are no further apart are the same


def reaches(loss: float, goal: float) -> bool:
    """Whether a loss is the goal or below."""
    return loss <= goal * _SAME


def to_loss(trainer: ALS, goal: float) -> ALS:
    """The trainer that ends as soon as its loss is the goal, and at the optimum if it never is."""
    return replace(trainer, loss_goal=goal)


@dataclass(frozen=True)
class RetrainRows:
    """Trains new random rows on the remaining data and, as AltEraser, keeps the original's shared parameters.

    ALS that starts with h at ones does not reach the loss of an ENMF whose h was trained, so it could not be compared.
    """

    rng: np.random.Generator
    trainer: ALS

    def forget(
        self,
        original: Model,
        full: Interactions,
        requested: Requests,
        *,
        missing: Missing = "error",
        progress: Progress | None = None,
    ) -> Erasure[Model]:
        """A model whose rows never saw what is requested."""

        def train(remain: Interactions) -> Training[Model]:
            return self.trainer.train(fresh_rows(original, self.rng), remain, rng=None, progress=progress)

        return retrain_by(train, original, full, requested, missing=missing)


def fresh_rows(original: Model, rng: np.random.Generator) -> Model:
    """The original with new random rows."""
    fresh, tables = original.fresh(rng), {side.value for side in original.sides}
    shared = {name: value for name, value in original.parameters().items() if name not in tables}
    return fresh.with_parameters({**fresh.parameters(), **shared})


class Timed(NamedTuple):
    """A retraining: what it took and where it ended."""

    seconds: float
    loss: float


def fastest(retrainings: Mapping[str, Timed], loss: float) -> str | None:
    """The name of the fastest retraining that ended at this loss or below; None if none got there."""
    there = [name for name, each in retrainings.items() if reaches(each.loss, loss)]
    return min(there, key=lambda name: retrainings[name].seconds, default=None)


def counted(names: Sequence[str | None]) -> str:
    """How often each of some names was the fastest, in words."""
    times = {name: names.count(name) for name in dict.fromkeys(names) if name is not None}
    if len(times) == 1 and len(names) == sum(times.values()):
        return next(iter(times))
    return ", ".join(f"{name} ({n} of {len(names)})" for name, n in times.items())
