"""Steps of chosen rows that lower what is pending and never raise the loss.

A step removes the pending residual, and so lowers the loss as it would be if rows had no other. With what they had
before the request, the loss itself could rise all the same, the more so the farther the original was from its
optimum. Every move therefore tells what the whole loss does. Where it would rise, the step is taken back, and as much
of the prior residual becomes pending as it takes for the loss to fall.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from alteraser.data.interactions import Side
from alteraser.live.decrement import TINY
from alteraser.live.newton_system import Chosen, newton_step
from alteraser.live.row_block import PendingRows
from alteraser.live.side import LossChange
from alteraser.live.state import BLOCK, LiveState
from alteraser.optim.damping import LevenbergMarquardt
from alteraser.optim.minimize import Solver, minimize
from alteraser.optim.newton import ah_newton
from alteraser.sweep.executors import Executor, Local

Floats = NDArray[Any]
# A step ends when a product adds less than this share of what it promises. A usual value for inexact Newton steps.
FORCING = 0.05
# The damping is a multiple of the preconditioner's inverse and begins at a hundredth of it. It rises fast, as a step
# that is taken back costs two moves. Set by hand.
DAMPING = LevenbergMarquardt(share=0.01, fall=0.25, rise=8.0, floor=1e-4)
# Attempts at a step before rows stay where they are; a damping raised so often leaves next to nothing of a step.
MAX_ATTEMPTS = 8


@dataclass(frozen=True)
class RowSolver:
    """By what rows are solved while the other side is fixed, in which blocks, and where these are run."""

    solver: Solver = ah_newton
    block_rows: int = BLOCK
    executor: Executor = Local()


EXACT = RowSolver()


class Steps:
    """Moves rows of a state; what lasts from step to step is the damping."""

    def __init__(self, state: LiveState[Any]) -> None:
        self._state, self._damping = state, DAMPING.share

    def solve(
        self, side: Side, rows: NDArray[np.int64], how: RowSolver = EXACT, *, admit: bool = True
    ) -> LossChange:
        """Moves some rows of a side to where nothing of theirs is pending, while the other side stays.

        A block of rows for which that would raise the loss has all of its prior residual admitted, or stays where it
        is.
        """
        change = LossChange()
        blocks = [rows[begin : begin + how.block_rows] for begin in range(0, len(rows), how.block_rows)]
        problems = (self._state.row_problem(side, block) for block in blocks)
        for block, vectors in zip(
            blocks, how.executor.map(partial(_solved, how.solver), problems), strict=True
        ):
            moved = self._moved(side, block, vectors.numpy())
            if moved is None and admit:
                self._admit({side: block}, math.inf, most=1.0)
                moved = self._moved(
                    side, block, _solved(how.solver, self._state.row_problem(side, block)).numpy()
                )
            change += moved or LossChange()
        return change

    def _moved(self, side: Side, rows: NDArray[np.int64], vectors: Floats) -> LossChange | None:
        """Moves rows, unless the loss would rise; None if it would."""
        before = self._state.sides[side].factors.vectors[rows]
        change = self._state.move(side, rows, vectors)
        if change.whole <= change.rounding:
            return change
        self._state.move(side, rows, before)
        return None

    def step(
        self,
        chosen: Chosen,
        *,
        forcing: float = FORCING,
        enough: float = math.inf,
        beside: Chosen | None = None,
        most: float = 1.0,
    ) -> LossChange:
        """Makes Newton's step of the chosen rows together, which raises neither the loss nor what is pending of it.

        With rows `beside` them, the step is that of all, of which only the chosen ones move, unless what is pending
        would rise. A step that would raise what is pending is taken back and damped more; for one that would raise the
        whole loss a share of the prior residual is admitted, `most` of it at most. If that is not enough, no row moves;
        what was admitted stays pending. Rows are given in ascending order.
        """
        state = self._state
        chosen = {side: rows for side, rows in chosen.items() if len(rows)}
        if not chosen:
            return LossChange()
        together = chosen
        if beside is not None:
            with_any = {side: np.union1d(chosen.get(side, rows[:0]), rows) for side, rows in beside.items()}
            together = {side: rows for side, rows in with_any.items() if len(rows)}
        before = {side: state.sides[side].factors.vectors[rows] for side, rows in chosen.items()}
        n_admitted, indefinite = 0, False  # once a share is admitted, then all
        for _ in range(MAX_ATTEMPTS):
            found, not_convex = newton_step(
                state, together, damping=self._damping, forcing=forcing, enough=enough
            )
            indefinite |= not_convex
            steps = {
                side: found[side][np.searchsorted(together[side], rows)] for side, rows in chosen.items()
            }
            # To take back a step longer than the rows themselves would leave rounding errors of its own size.
            if _squares(steps) > _squares(before):
                self._damping = DAMPING.raised(self._damping)
                continue
            change = LossChange(indefinite=indefinite)
            for side, rows in chosen.items():
                change += state.move(side, rows, before[side] + steps[side])
            if change.pending <= 0 and change.whole <= change.rounding:
                self._damping = DAMPING.lowered(self._damping)
                return change
            for side, rows in reversed(chosen.items()):
                state.move(side, rows, before[side])
            if change.pending > 0 and together is not chosen:
                together = chosen  # too much of what they would meet halfway stays where it is
            elif change.pending > 0 or n_admitted == 2:
                self._damping = DAMPING.raised(self._damping)
            elif self._admit(chosen, math.inf if n_admitted else change.whole, most=most):
                n_admitted += 1
            else:
                break
        return LossChange(indefinite=indefinite)

    def _admit(self, chosen: Chosen, rise: float, *, most: float) -> bool:
        """Makes a share of the prior residual of rows pending, so that the loss does not rise as it would have.

        With r the pending and t the prior residual and A half the Hessian, the step A⁻¹(r + share·t) raises the loss by
        `rise` − (2·share − share²)·tᵀA⁻¹t. A share is wanted that takes off twice the rise, or all there is. If it is
        more than `most`, nothing is admitted: rows beyond the request's own would be trained on.
        """
        prior = {side: self._state.prior_residual(side, rows) for side, rows in chosen.items()}
        decrement = sum(
            float(self._state.decrements(side, rows, prior[side])[0].sum()) for side, rows in chosen.items()
        )
        share = 1 - math.sqrt(max(1 - 2 * rise / max(decrement, TINY), 0.0))
        if share > most:
            return False
        for side, rows in chosen.items():
            self._state.admit_prior(side, rows, prior[side], share)
        return True


def _solved(solver: Solver, problem: PendingRows) -> Tensor:
    return minimize(problem, problem.start, solver=solver).value


def _squares(parts: dict[Side, Floats]) -> float:
    return sum(float(np.vdot(values, values)) for values in parts.values())
