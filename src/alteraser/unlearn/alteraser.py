"""AltEraser, Algorithm 1 of "Forgetting Fast in Recommender Systems" (RecSys 2022)."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import torch

from alteraser.data.changes import Change
from alteraser.data.interactions import Interactions, Side
from alteraser.data.requests import Missing, Requests
from alteraser.errors import SettingError
from alteraser.live.erasure import Erasure
from alteraser.models.base import Quadratic
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
    rounding,
)
from alteraser.train.base import Training
from alteraser.unlearn.base import forget_by, timer

Scope = Literal["forgetting", "affected", "all"]
TOLERANCES: dict[Scope, float] = {"forgetting": 0.0, "affected": 0.012, "all": 1e-5}
SCOPES = tuple(TOLERANCES)
OF_PASSES = (
    "solver",
    "acceleration",
    "block_rows",
    "executor",
    "solve_shared",
)  # what "affected" has no use for
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
    share that may be left of the gap that the deletion opened in the loss (by default 0.012). No pass or step begins
    after `budget_seconds`.

    With `acceleration` they are steps of Newton's method over all rows, or passes that start from a guess; None gives
    the paper's passes. `solve_shared` adds the step for Φ (here h), which goes without acceleration.
    """

    solver: Solver = ah_newton
    scope: Scope = "all"
    max_passes: int = 16
    tolerance: float | None = None
    training_gap: float = 1.0
    acceleration: Acceleration | None = JointNewton()
    block_rows: int = 4096
    executor: Executor = Serial()
    solve_shared: bool = False
    budget_seconds: float = math.inf

    def __post_init__(self) -> None:
        if self.scope not in SCOPES:
            raise SettingError(f"scope is {self.scope!r}; it must be one of {', '.join(SCOPES)}.")
        check_stopping_rule(self.max_passes, self._tolerance)
        if not self.training_gap >= 0:
            raise SettingError(f"training_gap is {self.training_gap}; a number from 0 up is wanted.")
        if not self.budget_seconds > 0:
            raise SettingError(f"budget_seconds is {self.budget_seconds}; a number above 0 is wanted.")
        if self.scope == "affected":
            self._check_affected()
        self._sweeper()

    def _check_affected(self) -> None:
        usual = {field.name: field.default for field in fields(self)}
        given = [name for name in OF_PASSES if getattr(self, name) != usual[name]]
        if given:
            raise SettingError(
                f"{', '.join(given)} came with scope='affected', which has steps of its own and leaves h as it is. "
                f"Take scope='all' for passes over all rows."
            )
        if self.training_gap > 1:
            raise SettingError(
                f"training_gap is {self.training_gap}; with scope='affected' a number from 0 to 1 is wanted."
            )

    def forget(
        self,
        original: Model,
        full: Interactions,
        requested: Requests,
        *,
        missing: Missing = "error",
        progress: Progress | None = None,
    ) -> Erasure[Model]:
        """The original made to forget what is requested, without starting anew."""
        out_of_time = timer(self.budget_seconds)

        def work(whole: Model, forget: Interactions, remain: Interactions) -> Training[Model]:
            erase = self._by_affected_rows if self.scope == "affected" else self._by_passes
            if not isinstance(whole, Quadratic):
                return erase(whole, full, forget, remain, out_of_time, progress)
            dimensions = whole.active_dimensions()
            # The step for Φ would share out among the others what h has in an empty dimension.
            if len(dimensions) == whole.table(whole.sides[0]).shape[1] or self.solve_shared:
                return erase(whole, full, forget, remain, out_of_time, progress)
            if whole.with_openings(full, remain, forget.by(Side.USERS).occupied) is not whole:
                return erase(whole, full, forget, remain, out_of_time, progress)
            training: Training[Any] = erase(
                whole.restrict(dimensions), full, forget, remain, out_of_time, progress
            )
            return replace(training, model=whole.with_dimensions(dimensions, training.model))

        return forget_by(work, original, full, requested, missing=missing)

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
        start = original
        if isinstance(original, Quadratic) and not self.solve_shared:
            start = original.with_openings(full, remain, rows.of(Side.USERS))
        model, loss, lower = _forgetting_pass(sweeper, start, remain, rows)
        max_passes = 0 if self.scope == "forgetting" else self.max_passes
        goal, left = self._goal_and_left(original, full, model, remain, max_passes)
        near = left <= goal
        passes = repeat(
            sweeper,
            model,
            remain,
            max_passes=0 if near else max_passes,
            tolerance=self._tolerance,
            loss=loss,
            gradient_goal=goal if goal > FAINT * left else 0.0,
            out_of_time=out_of_time,
            acceleration=self.acceleration,
            progress=progress,
        )
        visited = len(rows) + passes.n_passes * len(Rows.occupied(remain))
        return Training(passes.model, passes.losses, lower and (near or passes.converged), visited)

    def _by_affected_rows(
        self,
        original: Model,
        full: Interactions,
        forget: Interactions,
        remain: Interactions,
        out_of_time: OutOfTime,
        progress: Progress | None,
    ) -> Training[Model]:
        if not isinstance(original, Bilinear):
            raise SettingError(
                f"scope='affected' needs rows with a closed form, which {type(original).__name__} does not have. "
                f"Take scope='all'."
            )
        loss = 0.0 if progress is None else original.loss(remain)

        def watch(done: int, fallen: float) -> None:
            if progress is not None:
                progress(done, self.max_passes, loss - fallen)

        rows = AffectedRows(original, full, training_gap=self.training_gap)
        pairs = forget.by(Side.USERS)
        change = Change.of_deletion(full, forget, remain)
        left = np.where(change.after.present, change.after.values, np.float32(-1))
        emptied = rows.delete(change.users, change.items, left)
        if self.training_gap != 1:
            rows.call_in_debts()
        settled = rows.settle(
            pairs.occupied,
            tolerance=self._tolerance,
            emptied=emptied,
            out_of_time=out_of_time,
            max_steps=self.max_passes,
            watch=watch,
        )
        falls = [-rise.whole for rise in settled.rises]
        return Training(
            rows.model, [], settled.converged, settled.rows_visited, [emptied + falls[0], *falls[1:]]
        )

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
        return Sweeper(self.solver, self.block_rows, self.executor, self.solve_shared)


def _forgetting_pass(
    sweeper: Sweeper, original: Model, remain: Interactions, rows: Rows
) -> tuple[Model, float, bool]:
    """The rows of those who forget solved anew, the loss then, and whether it is no higher than it was.

    Where the rows' own precision does not do, they are solved in double; where that raises the loss too, only rows
    without interactions change.
    """
    emptied = original.without_empty_rows(remain)
    before = emptied.loss(remain)
    kind = original.table(original.sides[0]).dtype
    for precision in (kind, torch.float64):
        swept = _in(kind, sweeper.sweep(_in(precision, original), remain, rows))
        if (loss := swept.loss(remain)) <= before * (1 + rounding(original)):
            return swept, loss, True
    return emptied, before, False


def _in(kind: torch.dtype, model: Model) -> Model:
    return model.with_parameters({name: value.to(kind) for name, value in model.parameters().items()})
