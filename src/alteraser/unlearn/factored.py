"""Algorithm 1 of the paper for models whose rows are no ridge problems: passes by the solver, judged by the loss alone.

Without residuals in closed form, what the requests caused cannot be told from what the original was short of its
optimum: such an original is trained on.
"""

from __future__ import annotations

import numpy as np

from alteraser.data.changes import Change
from alteraser.data.interactions import Interactions, Side
from alteraser.live.refine import Goal, Refined, Watch
from alteraser.live.scopes import ForgettingRows, Passes
from alteraser.live.side import LossChange
from alteraser.live.strategies import Done
from alteraser.sweep.sweep import Model, OutOfTime, Rows, Sweeper, passes_over


def refine_factored(
    original: Model,
    change: Change,
    remain: Interactions,
    scope: ForgettingRows | Passes,
    *,
    out_of_time: OutOfTime,
    watch: Watch,
) -> tuple[Model, Refined]:
    """Makes passes until about the tolerance is left of what they can gain, judging by what the last ones gained."""
    sweeper = Sweeper(scope.solver, scope.block_rows, scope.executor, scope.solve_shared)
    rows = Rows({side: np.unique(change.rows(side)) for side in Side})
    start = sweeper.loss(original, remain)
    model = sweeper.sweep(original, remain, rows)
    loss, emptied = sweeper.loss(model, remain), original.without_empty_rows(remain)
    if not loss <= (least := sweeper.loss(emptied, remain)):
        model, loss = emptied, least
    done, goal = Done(), Goal(scope.tolerance)
    done.begin(_fall(start - loss), len(rows))
    advance = passes_over(sweeper, model, remain, scope.acceleration if isinstance(scope, Passes) else None)
    while True:
        left = done.still_to_come  # known after two passes
        met = done.n_passes > 1 and left <= goal.left_of(left + done.gained)
        if met or done.steps >= scope.max_steps or out_of_time():
            return model, Refined(done.changes, left, done.rows_visited, done.n_passes, met)
        after, reached = advance(model, loss)
        if not reached < loss:
            return model, Refined(done.changes, 0.0, done.rows_visited, done.n_passes, converged=True)
        done.add(_fall(loss - reached), len(Rows.occupied(remain)), is_pass=True)
        model, loss = after, reached
        watch(done.steps, start - loss)


def _fall(fall: float) -> LossChange:
    return LossChange(-fall, -fall)
