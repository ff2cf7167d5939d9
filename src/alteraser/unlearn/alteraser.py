"""AltEraser, Algorithm 1 of "Forgetting Fast in Recommender Systems" (RecSys 2022)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from alteraser.data.interactions import Interactions
from alteraser.data.requests import Missing, Requests
from alteraser.errors import SettingError
from alteraser.optim.minimize import Solver
from alteraser.optim.newton import ah_newton
from alteraser.sweep.executors import Executor, Serial
from alteraser.sweep.joint import JointNewton
from alteraser.sweep.sweep import Acceleration, Model, Progress, Rows, Sweeper, check_stopping_rule, repeat
from alteraser.train.base import Training
from alteraser.unlearn.base import Outcome, forget_by

FAINT = 0.01  # of the gradient that is left: below it the tolerance is met first, and the norm need not be looked at


@dataclass(frozen=True)
class AltEraser:
    """One pass over the forgetting users and items, then passes over all until the stopping rule.

    `max_passes` counts the passes over all; with 0 only the forgetting rows are solved anew. They end when a pass
    lowers the loss on the remaining data by less than `tolerance` of it. They also end, or do not begin, when the
    norm of its gradient is at most `training_gap` times what the original had on the full data: the model is then as
    near its optimum as the original was to its own, and to go on would be training, not forgetting (0: go on).

    With `acceleration` they are steps of Newton's method over all rows, or passes that start from a guess; None gives
    the paper's passes. `solve_others` adds the step for Φ (here h), which goes without acceleration.
    """

    solver: Solver = ah_newton
    max_passes: int = 16
    tolerance: float = 1e-5
    training_gap: float = 1.0
    acceleration: Acceleration | None = JointNewton()
    block_rows: int = 4096
    executor: Executor = Serial()
    solve_others: bool = False

    def __post_init__(self) -> None:
        check_stopping_rule(self.max_passes, self.tolerance)
        if not self.training_gap >= 0:
            raise SettingError(f"training_gap is {self.training_gap}; a number from 0 up is wanted.")
        self._sweeper()

    def forget(
        self,
        original: Model,
        full: Interactions,
        requested: Requests,
        *,
        missing: Missing = "error",
        progress: Progress | None = None,
    ) -> Outcome[Model]:
        """The original made to forget what is requested, without starting anew."""

        def erase(model: Model, forget: Interactions, remain: Interactions) -> Training[Model]:
            sweeper, rows = self._sweeper(), Rows.occupied(forget)
            dimensions, whole = model.carrying(), model
            # The step for Φ would share out among the others what h has in an empty dimension.
            empty = len(dimensions) < model.table(model.sides[0]).shape[1] and not self.solve_others
            original = model.only(dimensions) if empty else model
            model = sweeper.sweep(original, remain, rows)
            goal, left = self._goal_and_left(original, full, model, remain)
            near = left <= goal
            passes = repeat(
                sweeper,
                model,
                remain,
                max_passes=0 if near else self.max_passes,
                tolerance=self.tolerance,
                gradient_goal=goal if goal > FAINT * left else 0.0,
                acceleration=self.acceleration,
                progress=progress,
            )
            visited = len(rows) + passes.n_passes * len(Rows.occupied(remain))
            erased = whole.with_dimensions(dimensions, passes.model) if empty else passes.model
            return Training(erased, passes.losses, near or passes.converged, visited)

        return forget_by(erase, original, full, requested, missing=missing)

    def _goal_and_left(
        self, original: Model, full: Interactions, model: Model, remain: Interactions
    ) -> tuple[float, float]:
        """The norm of the gradient that is near enough to the optimum, and that which is left."""
        if self.training_gap == 0 or self.max_passes == 0:
            return 0.0, math.inf
        return self.training_gap * original.gradient_norm(full), model.gradient_norm(remain)

    def _sweeper(self) -> Sweeper:
        return Sweeper(self.solver, self.block_rows, self.executor, self.solve_others)
