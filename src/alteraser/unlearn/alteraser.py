"""AltEraser, Algorithm 1 of "Forgetting Fast in Recommender Systems" (RecSys 2022)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from alteraser.data.interactions import Interactions, Side
from alteraser.data.requests import Missing, Requests
from alteraser.errors import SettingError
from alteraser.models.bilinear import Bilinear
from alteraser.optim.minimize import Solver
from alteraser.optim.newton import ah_newton
from alteraser.sweep.affected import AffectedRows
from alteraser.sweep.executors import Executor, Serial
from alteraser.sweep.joint import JointNewton
from alteraser.sweep.sweep import (
    Acceleration,
    Model,
    OutOfTime,
    Progress,
    Rows,
    Sweeper,
    check_stopping_rule,
    repeat,
)
from alteraser.train.base import Training
from alteraser.unlearn.base import Outcome, forget_by, timer

Scope = Literal["forgetting", "affected", "all"]
TOLERANCES: dict[Scope, float] = {"forgetting": 0.0, "affected": 0.002, "all": 1e-5}
SCOPES = tuple(TOLERANCES)
FAINT = 0.01  # of the gradient that is left: below it the tolerance is met first, and the norm need not be looked at


@dataclass(frozen=True)
class AltEraser:
    """One pass over the forgetting users and items, then passes over all until the stopping rule.

    `max_passes` counts the passes over all; with 0 only the forgetting rows are solved anew. They end when a pass
    lowers the loss on the remaining data by less than `tolerance` of it (by default 1e-5). They also end, or do not
    begin, when the norm of its gradient is at most `training_gap` times what the original had on the full data: the
    model is then as near its optimum as the original was to its own, and to go on would be training, not forgetting
    (0: go on).

    `scope` says how far to go: "forgetting", the first pass alone; "affected", steps of the rows that the deletion has
    moved away from their minimum, most affected first, and of nobody else; "all". For "affected" the tolerance is the
    share that may be left of the gap that the deletion opened in the loss (by default 0.002). No pass or step begins
    after `budget_seconds`.

    With `acceleration` they are steps of Newton's method over all rows, or passes that start from a guess; None gives
    the paper's passes. `solve_others` adds the step for Φ (here h), which goes without acceleration.
    """

    solver: Solver = ah_newton
    scope: Scope = "all"
    max_passes: int = 16
    tolerance: float | None = None
    training_gap: float = 1.0
    acceleration: Acceleration | None = JointNewton()
    block_rows: int = 4096
    executor: Executor = Serial()
    solve_others: bool = False
    budget_seconds: float = math.inf

    def __post_init__(self) -> None:
        if self.scope not in SCOPES:
            raise SettingError(f"scope is {self.scope!r}; it must be one of {', '.join(SCOPES)}.")
        check_stopping_rule(self.max_passes, self._tolerance)
        if not self.training_gap >= 0:
            raise SettingError(f"training_gap is {self.training_gap}; a number from 0 up is wanted.")
        if not self.budget_seconds > 0:
            raise SettingError(f"budget_seconds is {self.budget_seconds}; a number above 0 is wanted.")
        if self.scope == "affected" and (self.solver != ah_newton or self.solve_others):
            raise SettingError(
                "scope='affected' has steps of its own: it takes no other solver and leaves h as it is. "
                "Take scope='all' for those."
            )
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
        out_of_time = timer(self.budget_seconds)

        def erase(whole: Model, forget: Interactions, remain: Interactions) -> Training[Model]:
            dimensions = whole.carrying()
            # The step for Φ would share out among the others what h has in an empty dimension.
            empty = len(dimensions) < whole.table(whole.sides[0]).shape[1] and not self.solve_others
            model = whole.only(dimensions) if empty else whole
            if self.scope == "affected":
                training = self._by_affected_rows(model, full, forget, remain, out_of_time)
            else:
                training = self._by_passes(model, full, forget, remain, out_of_time, progress)
            return (
                replace(training, model=whole.with_dimensions(dimensions, training.model))
                if empty
                else training
            )

        return forget_by(erase, original, full, requested, missing=missing)

    def _by_passes(
        self,
        original: Model,
        full: Interactions,
        forget: Interactions,
        remain: Interactions,
        out_of_time: OutOfTime,
        progress: Progress | None,
    ) -> Training[Model]:
        sweeper, rows = self._sweeper(), Rows.occupied(forget)
        model = sweeper.sweep(original, remain, rows)
        max_passes = 0 if self.scope == "forgetting" else self.max_passes
        goal, left = self._goal_and_left(original, full, model, remain, max_passes)
        near = left <= goal
        passes = repeat(
            sweeper,
            model,
            remain,
            max_passes=0 if near else max_passes,
            tolerance=self._tolerance,
            gradient_goal=goal if goal > FAINT * left else 0.0,
            out_of_time=out_of_time,
            acceleration=self.acceleration,
            progress=progress,
        )
        visited = len(rows) + passes.n_passes * len(Rows.occupied(remain))
        return Training(passes.model, passes.losses, near or passes.converged, visited)

    def _by_affected_rows(
        self,
        original: Model,
        full: Interactions,
        forget: Interactions,
        remain: Interactions,
        out_of_time: OutOfTime,
    ) -> Training[Model]:
        if not isinstance(original, Bilinear):
            raise SettingError(
                f"scope='affected' needs rows with a closed form, which {type(original).__name__} does not have. "
                f"Take scope='all'."
            )
        rows = AffectedRows(original, full, training_gap=self.training_gap)
        pairs = forget.by(Side.USERS)
        users = np.repeat(np.arange(len(pairs)), pairs.counts)
        # Where no pair has two events, none keeps a part of its weight.
        repeated = full.by(Side.USERS).n_entries < len(full)
        left = remain.weights_of(users, pairs.columns) if repeated else np.full(len(users), -1, np.float32)
        rows.delete(users, pairs.columns.astype(np.int64), left)
        if self.training_gap != 1:
            rows.call_in_debts()
        settled = rows.settle(
            pairs.occupied, tolerance=self._tolerance, out_of_time=out_of_time, max_steps=self.max_passes
        )
        return Training(rows.model, [], settled.converged, settled.rows_visited)

    def _goal_and_left(
        self, original: Model, full: Interactions, model: Model, remain: Interactions, max_passes: int
    ) -> tuple[float, float]:
        """The norm of the gradient that is near enough to the optimum, and that which is left."""
        if self.training_gap == 0 or max_passes == 0:
            return 0.0, math.inf
        return self.training_gap * original.gradient_norm(full), model.gradient_norm(remain)

    @property
    def _tolerance(self) -> float:
        return TOLERANCES[self.scope] if self.tolerance is None else self.tolerance

    def _sweeper(self) -> Sweeper:
        return Sweeper(self.solver, self.block_rows, self.executor, self.solve_others)
