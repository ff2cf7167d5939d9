"""AltEraser, after Algorithm 1 of "Forgetting Fast in Recommender Systems" (RecSys 2022)."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Generic

import numpy as np

from alteraser.data.interactions import Interactions
from alteraser.data.requests import Missing, Requests
from alteraser.errors import SettingError
from alteraser.live.erasure import Cost, Drift, Erasure
from alteraser.live.refine import Refined, Refiner
from alteraser.live.scopes import SCOPES, AllRows, Passes, Scope
from alteraser.live.state import LiveState, QuadraticModel
from alteraser.live.time_limit import time_limit
from alteraser.models.base import Quadratic
from alteraser.optim.minimize import Solver
from alteraser.sweep.sweep import Model, OutOfTime, Progress
from alteraser.unlearn.base import Deletion


@dataclass(frozen=True)
class AltEraser:
    """Refines a trained model until what a batch of requests caused is worth little.

    `scope` says which rows may move, and has the settings for it: `ForgettingRows`, `AffectedRows`, `AllRows` or
    `Passes`, or one of "forgetting", "affected" and "all" for their defaults. All but the first stop by the same rule:
    when no more than their tolerance is left of the gap that the requests opened in the loss. `solver` alone is short
    for the paper's algorithm, scope=Passes(solver). No step begins after `budget_seconds`.
    """

    scope: Scope | str | None = None
    solver: Solver | None = None
    budget_seconds: float = math.inf

    def __post_init__(self) -> None:
        if self.scope is not None and self.solver is not None:
            raise SettingError(
                "Both scope and solver came; one of them is wanted. A solver belongs to passes: scope=Passes(solver=…) "
                "or scope=ForgettingRows(solver=…)."
            )
        if isinstance(self.scope, str) and self.scope not in SCOPES:
            raise SettingError(f"scope is {self.scope!r}; it must be one of {', '.join(SCOPES)}.")
        if not self.budget_seconds > 0:
            raise SettingError(f"budget_seconds is {self.budget_seconds}; a number above 0 is wanted.")

    @property
    def rows_to_move(self) -> Scope:
        """The scope as a settings object."""
        if self.scope is None:
            return AllRows() if self.solver is None else Passes(self.solver)
        return SCOPES[self.scope] if isinstance(self.scope, str) else self.scope

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
        if not isinstance(original, Quadratic):
            raise SettingError(
                f"AltEraser needs a model whose rows are ridge problems (`Quadratic`), which {type(original).__name__} "
                f"is not. Take Retrain or WarmStart."
            )
        original.check_belongs(full)
        began, out_of_time = time.perf_counter(), time_limit(self.budget_seconds)
        deletion = Deletion.of(requested, full, missing)
        done = _Done(original, Refined([], 0.0, 0, 0, converged=True), 0.0, Drift(0.0, 0.0))
        if len(deletion.change):
            done = self._refine(original, full, deletion, out_of_time, progress)
        seconds = time.perf_counter() - began
        remain = deletion.remain
        left = remain.with_tombstones(full)
        return Erasure(
            model=done.model,
            change=deletion.change,
            requests=deletion.counts,
            cost=Cost(seconds, len(done.refined.changes), done.refined.n_passes, done.refined.rows_visited),
            converged=done.refined.converged,
            losses=done.losses(original.loss(remain), done.model.loss(remain)),
            drift=done.drift,
            remaining=lambda: left,
        )

    def _refine(
        self,
        original: QuadraticModel,
        full: Interactions,
        deletion: Deletion,
        out_of_time: OutOfTime,
        progress: Progress | None,
    ) -> _Done[QuadraticModel]:
        scope, change, remain = self.rows_to_move, deletion.change, deletion.remain
        refiner = Refiner(LiveState(original, full, training_gap=scope.training_gap))
        emptied = refiner.apply(change)
        if scope.training_gap != 1:
            refiner.make_all_pending()
        loss = 0.0 if progress is None else original.loss(remain)

        def watch(done: int, fallen: float) -> None:
            if progress is not None:
                progress(done, scope.max_steps, loss - fallen)

        refined = refiner.refine(
            change, scope, emptied=emptied, remain=remain, out_of_time=out_of_time, watch=watch
        )
        return _Done(refiner.state.model, refined, emptied, refiner.drift())


@dataclass(frozen=True, eq=False)
class _Done(Generic[QuadraticModel]):
    """Where refinement led, and by how much the loss fell as emptied rows became zero."""

    model: QuadraticModel
    refined: Refined
    emptied: float
    drift: Drift

    def losses(self, before: float, after: float) -> tuple[float, ...]:
        """The loss before and after each step, given what was measured before the first and after the last."""
        falls = np.array([-change.whole for change in self.refined.changes])
        if len(falls) == 0:
            return (before,)
        falls[0] += self.emptied
        return (before, *(before - np.cumsum(falls[:-1])).tolist(), after)
