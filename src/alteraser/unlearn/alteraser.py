"""AltEraser, after Algorithm 1 of "Forgetting Fast in Recommender Systems" (RecSys 2022)."""

from __future__ import annotations

import math
import time
from dataclasses import InitVar, dataclass, replace
from typing import Generic

import numpy as np

from alteraser.data.interactions import Interactions, Side
from alteraser.data.requests import Missing, Requests
from alteraser.errors import SettingError
from alteraser.live.erasure import Cost, Drift, Erasure
from alteraser.live.refine import Refined, Refiner, Watch
from alteraser.live.scopes import AffectedRows, AllRows, AutoRows, ForgettingRows, Passes, Scope, named_scope
from alteraser.live.state import LiveState, QuadraticModel
from alteraser.live.time_limit import time_limit
from alteraser.models.base import Quadratic, lacking
from alteraser.models.kernel_warm_up import warm_up_for
from alteraser.optim.minimize import Solver
from alteraser.sweep.sweep import Model, OutOfTime, Progress
from alteraser.unlearn.base import Deletion
from alteraser.unlearn.factored import refine_factored

NOTHING = Refined([], 0.0, 0, 0, converged=True)


@dataclass(frozen=True)
class AltEraser:
    """Refines a trained model until little is left of the gap that a batch of requests opened in the loss.

    `scope` says which rows may move, and has the settings for it: `AutoRows`, `AffectedRows`, `AllRows`,
    `ForgettingRows` or `Passes`, or one of "auto", "affected", "all" and "forgetting" for their defaults. All but
    `ForgettingRows` stop by the same rule: when no more than their tolerance is left of the gap that the requests
    opened in the loss. `solver` alone is short for the paper's algorithm, scope=Passes(solver). No step begins after
    `budget_seconds`.
    """

    scope: Scope | str = "auto"
    solver: InitVar[Solver | None] = None
    budget_seconds: float = math.inf

    def __post_init__(self, solver: Solver | None) -> None:
        if solver is not None and self.scope != "auto":
            raise SettingError(
                "Both scope and solver came; one of them is wanted. A solver belongs to passes: scope=Passes(solver=…) "
                "or scope=ForgettingRows(solver=…)."
            )
        if not self.budget_seconds > 0:
            raise SettingError(f"budget_seconds is {self.budget_seconds}; a number above 0 is wanted.")
        if isinstance(self.scope, str):
            name = self.scope if solver is None else "all"
            object.__setattr__(self, "scope", named_scope(name, solver=solver))

    @property
    def rows_to_move(self) -> Scope:
        """The scope, which is a settings object however it was given."""
        return named_scope(self.scope) if isinstance(self.scope, str) else self.scope

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
        original.check_belongs(full)
        warm_up_for(original)
        began, out_of_time = time.perf_counter(), time_limit(self.budget_seconds)
        deletion = Deletion.of(requested, full, missing)
        remain = deletion.remain
        done = self._refine(original, full, deletion, out_of_time, progress)
        seconds = time.perf_counter() - began
        left, refined = remain.with_tombstones(full), done.refined
        return Erasure(
            model=done.model,
            change=deletion.change,
            requests=deletion.counts,
            cost=Cost(seconds, len(refined.changes), refined.n_passes, refined.rows_visited),
            converged=refined.converged,
            losses=done.losses(original.loss(remain), done.model.loss(remain)),
            drift=done.drift or Drift(done.model.gradient_norm(remain), math.nan),
            remaining=lambda: left,
        )

    def _refine(
        self,
        original: Model,
        full: Interactions,
        deletion: Deletion,
        out_of_time: OutOfTime,
        progress: Progress | None,
    ) -> _Done[Model]:
        if len(deletion.change) == 0:
            return _Done(original)
        scope, loss = self.rows_to_move, 0.0 if progress is None else original.loss(deletion.remain)

        def watch(steps: int, fallen: float) -> None:
            if progress is not None:
                progress(steps, scope.max_steps, loss - fallen)

        if isinstance(original, Quadratic):
            done = _refine(original, full, deletion, scope, out_of_time, watch)
            return _Done(done.model, done.refined, done.emptied, done.drift)
        if isinstance(scope, ForgettingRows | Passes):
            given = (original, deletion.change, deletion.remain, scope)
            return _Done(*refine_factored(*given, out_of_time=out_of_time, watch=watch))
        raise lacking(
            original,
            Quadratic,
            wanted_by=f"AltEraser with {type(scope).__name__}",
            instead="Take scope=Passes(solver=hf_newton), or Retrain.",
        )


@dataclass(frozen=True, eq=False)
class _Done(Generic[Model]):
    """Where refinement led, and by how much the loss fell as emptied rows became zero."""

    model: Model
    refined: Refined = NOTHING
    emptied: float = 0.0
    drift: Drift | None = None

    def losses(self, before: float, after: float) -> tuple[float, ...]:
        """The loss before and after each step, given what was measured before the first and after the last."""
        falls = np.array([-change.whole for change in self.refined.changes])
        if len(falls) == 0:
            return (before,)
        falls[0] += self.emptied
        return (before, *(before - np.cumsum(falls[:-1])).tolist(), after)


def _refine(
    original: QuadraticModel,
    full: Interactions,
    deletion: Deletion,
    scope: Scope,
    out_of_time: OutOfTime,
    watch: Watch,
) -> _Done[QuadraticModel]:
    """Refines the original in those of its dimensions that take part in scores, where that is all it needs."""
    dimensions = original.active_dimensions()
    shared = isinstance(scope, ForgettingRows | Passes) and scope.solve_shared
    if len(dimensions) < len(original.h) and not shared and not _opens_a_direction(original, full, deletion):
        small = original.restrict(dimensions)
        done = _refine(small, full, deletion, scope, out_of_time, watch)
        return replace(done, model=original.with_dimensions(dimensions, done.model))
    refiner = Refiner(LiveState(original, full, training_gap=scope.training_gap))
    emptied = refiner.apply(deletion.change)
    if scope.training_gap != 1 and isinstance(
        scope, AutoRows | AffectedRows
    ):  # there is something to do everywhere
        scope = AllRows(scope.tolerance, scope.max_steps)
    refined = refiner.refine(
        deletion.change, scope, emptied=emptied, remain=deletion.remain, out_of_time=out_of_time, watch=watch
    )
    return _Done(refiner.state.model, refined, emptied, refiner.drift())


def _opens_a_direction(original: QuadraticModel, full: Interactions, deletion: Deletion) -> bool:
    """Whether the loss now falls if one of those who forget gets a direction that is empty in all vectors."""
    refiner = Refiner(LiveState(original, full))
    refiner.apply(deletion.change)
    users = refiner.occupied(Side.USERS, np.unique(deletion.change.users))
    refiner.steps.solve(Side.USERS, users)
    return refiner.directions.open_for(users).whole < 0
