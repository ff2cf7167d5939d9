"""Alternating least squares: the erase pass over all rows, repeated to a tolerance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from alteraser.data.interactions import Interactions
from alteraser.optim.minimize import Solver
from alteraser.optim.newton import ah_newton
from alteraser.sweep.accelerate import Anderson
from alteraser.sweep.executors import Executor, Local
from alteraser.sweep.sweep import (
    Acceleration,
    Model,
    OnPass,
    Progress,
    Rows,
    Sweeper,
    check_stopping_rule,
    repeat,
)
from alteraser.train.base import Training


@dataclass(frozen=True)
class ALS:
    """Stops when a pass lowers the loss by less than `tolerance` of it, or it is `loss_goal`; nothing is random.

    Passes are accelerated unless `acceleration` is None. Their blocks are run by `executor`.
    """

    max_passes: int = 200
    tolerance: float = 1e-5
    acceleration: Acceleration | None = Anderson()
    solver: Solver = ah_newton
    solve_shared: bool = False
    loss_goal: float = -math.inf
    executor: Executor = Local()

    def __post_init__(self) -> None:
        check_stopping_rule(self.max_passes, self.tolerance)

    def train(
        self,
        model: Model,
        data: Interactions,
        *,
        rng: np.random.Generator | None,
        progress: Progress | None = None,
        on_pass: OnPass[Model] | None = None,
    ) -> Training[Model]:
        del rng
        sweeper = Sweeper(self.solver, executor=self.executor, solve_shared=self.solve_shared)
        passes = repeat(
            sweeper,
            model.without_empty_rows(data),
            data,
            max_passes=self.max_passes,
            tolerance=self.tolerance,
            loss_goal=self.loss_goal,
            acceleration=self.acceleration,
            progress=progress,
            on_pass=on_pass,
        )
        visited = passes.n_passes * len(Rows.occupied(data))
        return Training(passes.model, passes.losses[1:], passes.converged, visited)
