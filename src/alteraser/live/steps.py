"""Steps of chosen rows that never raise the loss.

A step removes residuals but for what rows keep of them, and so lowers the loss as it would be if the original had been
at its optimum. With what it was short of, the loss itself could rise all the same, the more so the farther it was.
Every move therefore tells what the whole loss does; of half steps of very many entries that is an estimate. Where it
would rise, rows give up as much of what they keep as it takes for the loss to fall, or stay where they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from alteraser.data.interactions import Side
from alteraser.live.gains import TINY
from alteraser.live.newton_system import Chosen, newton_step
from alteraser.live.row_block import PendingRows
from alteraser.live.side import LossChange
from alteraser.live.state import LiveState
from alteraser.optim.damping import LevenbergMarquardt
from alteraser.optim.minimize import Solver, minimize
from alteraser.optim.newton import ah_newton
from alteraser.sweep.executors import Executor, Local

Floats = NDArray[Any]
# Rows solved at once where nothing else is asked for: their factors, 16 kB a row, stay in memory meanwhile.
BLOCK = 1024
# A step ends when a product adds less than this share of what it promises. A usual value for inexact Newton steps.
FORCING = 0.05
# The damping is a multiple of the preconditioner's inverse and begins at a hundredth of it. It rises fast, as a step
# that is taken back costs two moves. Set by hand.
DAMPING = LevenbergMarquardt(share=0.01, fall=0.25, rise=8.0, floor=1e-4)
# Half steps of rows with so many entries together are followed exactly. Of more, so many of each row tell its length.
MEASURED, MEASURED_OF_A_ROW = 40_000, 64
# Attempts at a half step, each with a greater share of what rows keep given up, and by how much that exceeds what is
# expected to be needed. Set by hand.
MAX_SHARES, MARGIN = 4, 1.2
# Attempts at a step before rows stay where they are; a damping raised so often leaves next to nothing of a step.
MAX_ATTEMPTS = 8


@dataclass(frozen=True)
class RowSolver:
    """By what rows are solved while the other side is fixed, in which blocks, and where these are run."""

    solver: Solver = ah_newton
    block_rows: int = BLOCK
    executor: Executor = Local()


EXACT = RowSolver()


@dataclass(frozen=True)
class Step:
    """What a step did to the loss, and about how much lower its rows could bring it still."""

    change: LossChange
    left: float = 0.0


class HalfStep(NamedTuple):
    """By how much rows of one side move, what that does to the loss, and what it leaves of what was wanted.

    What it leaves is None where rows have so many entries that only some of them were looked at: it is not known then.
    """

    by: Floats
    change: LossChange
    left: Floats | None


class Steps:
    """Moves rows of a state; what lasts from step to step is the damping."""

    def __init__(self, state: LiveState[Any]) -> None:
        self._state, self._damping = state, DAMPING.share

    def solve(
        self, side: Side, rows: NDArray[np.int64], how: RowSolver = EXACT, *, give_up: bool = True
    ) -> LossChange:
        """Moves some rows of a side to where nothing of theirs is to be removed, while the other side stays.

        A block of rows for which that would raise the loss gives up what it keeps, or stays where it is.
        """
        change = LossChange()
        blocks = [rows[begin : begin + how.block_rows] for begin in range(0, len(rows), how.block_rows)]
        problems = (self._state.row_problem(side, block) for block in blocks)
        for block, vectors in zip(
            blocks, how.executor.map(partial(_solved, how.solver), problems), strict=True
        ):
            moved = self._moved(side, block, vectors.numpy())
            if moved is None and give_up:
                self._state.give_up_kept(side, block, 1.0)
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

    def half_step(
        self, side: Side, rows: NDArray[np.int64], brought: Floats, *, most: float = 1.0
    ) -> LossChange | None:
        """Moves some rows of a side towards where what was brought to them is removed, while the other side stays.

        Each row goes along its preconditioned residual, by the best length along that. Where rows have very many
        entries of one weight, some of these tell the lengths and what the step does to the loss. Where the loss would
        rise, rows give up as much of what they keep as it takes, `most` of it at most. None where that is not enough:
        no row moves then.
        """
        state, kept = self._state, self._state.sides[side].kept[rows]
        share, first_rise = 0.0, 0.0
        for attempt in range(MAX_SHARES):
            state.give_up_kept(side, rows, share)
            half = self._half_step(side, rows, brought + share * kept if share else brought)
            change = self._made(side, rows, half)
            if _lowers(change):
                state.disturbance.reset(side, rows, half.left)
                return change
            state.sides[side].kept[rows] = kept
            rise = change.whole
            if rise <= change.rounding:
                break  # it is what is to be removed that would rise
            if attempt == 0:
                first_rise, share = rise, self._share_against(side, rows, kept, rise)
            else:  # on a straight line from the first rise to this one, and somewhat beyond
                taken_off = max(first_rise - rise, first_rise / 10)
                share *= MARGIN * first_rise / taken_off
            if share > most:
                break
        return None

    def _half_step(self, side: Side, rows: NDArray[np.int64], wanted: Floats) -> HalfStep:
        """The half step of some rows, not yet made, that removes what is wanted as far as one direction of each can."""
        state, own = self._state, self._state.sides[side]
        other = state.sides[side.other]
        by, curvatures = state.preconditioner(side).steps(own, rows, wanted)
        along, products = _dots(wanted, by), None
        if int(own.entries.counts(rows).sum()) <= MEASURED or not state.weights_are_alike:
            products = own.products(rows, by, other)
            of_all = _dots(by, products)
        else:
            of_all = curvatures + own.entry_curvatures(rows, by, other, most=MEASURED_OF_A_ROW)
        # Entries that weigh less than missing ones make it smaller; half of the rest is left to it.
        curved = np.maximum(of_all, curvatures / 2)
        lengths = np.divide(along, curved, out=np.zeros_like(along), where=curved > 0)
        by *= lengths[:, None]
        pending = _dot(lengths, lengths * of_all) - 2 * _dot(lengths, along)
        change = LossChange(pending, pending - 2 * _dot(own.kept[rows], by))
        left = None if products is None else wanted - lengths[:, None] * products
        return HalfStep(by, change, left)

    def _made(self, side: Side, rows: NDArray[np.int64], half: HalfStep) -> LossChange:
        """Makes a half step if that lowers the loss; tells what it does, exactly where it was followed exactly."""
        if half.left is None:
            if _lowers(half.change):
                self._state.shift(side, rows, half.by)
            return half.change
        before = self._state.sides[side].factors.vectors[rows]
        change = self._state.move(side, rows, before + half.by)
        if not _lowers(change):
            self._state.move(side, rows, before)
        return change

    def _share_against(self, side: Side, rows: NDArray[np.int64], kept: Floats, rise: float) -> float:
        """What share of what some rows keep they must give up for the loss not to rise as it would have.

        With r what is to be removed, t what is kept and A half the Hessian, the step A⁻¹(r + share·t) raises the loss
        by `rise` − (2·share − share²)·tᵀA⁻¹t. A share is wanted that takes off twice the rise, or all there is.
        """
        decrement = float(self._state.decrements(side, rows, kept).sum())
        return 1 - math.sqrt(max(1 - 2 * rise / max(decrement, TINY), 0.0))

    def step(
        self, chosen: Chosen, *, forcing: float = FORCING, enough: float = math.inf, most: float = 1.0
    ) -> Step:
        """Makes Newton's step of the chosen rows together, which raises neither the loss nor what is to be removed.

        A step that would raise what is to be removed is taken back and damped more; for one that would raise the whole
        loss rows give up a share of what they keep, `most` of it at most. If that is not enough, no row moves. Rows are
        given in ascending order.
        """
        state = self._state
        chosen = {side: rows for side, rows in chosen.items() if len(rows)}
        if not chosen:
            return Step(LossChange())
        before = {side: state.sides[side].factors.vectors[rows] for side, rows in chosen.items()}
        indefinite = False
        for _ in range(MAX_ATTEMPTS):
            found = newton_step(state, chosen, damping=self._damping, forcing=forcing, enough=enough)
            indefinite |= found.indefinite
            # To take back a step longer than the rows themselves would leave rounding errors of its own size.
            if _squares(found.by) > _squares(before):
                self._damping = DAMPING.raised(self._damping)
                continue
            change = LossChange(indefinite=indefinite)
            for side, rows in chosen.items():
                change += state.move(side, rows, before[side] + found.by[side])
            kept = None
            if change.pending <= 0 and change.whole > change.rounding:
                kept = {side: state.sides[side].kept[rows] for side, rows in chosen.items()}
                change += self._give_up(chosen, change.whole, most=most)
            if _lowers(change):
                self._damping = DAMPING.lowered(self._damping)
                # Of a quadratic that is c times as curved as it was taken to be, this is what the step has left.
                wrong = (found.promised + change.pending) ** 2 / max(found.promised, TINY)
                return Step(change, found.left + wrong)
            for side, rows in reversed(chosen.items()):
                state.move(side, rows, before[side])
                if kept is not None:
                    state.sides[side].kept[rows] = kept[side]
            self._damping = DAMPING.raised(self._damping)
        return Step(LossChange(indefinite=indefinite))

    def _give_up(self, chosen: Chosen, rise: float, *, most: float) -> LossChange:
        """Moves rows of one side towards where what they keep is removed, until the loss is lower by twice `rise`.

        They give up that share of it, unless it is more than `most`: rows beyond the request's own would be trained on.
        """
        state, decrements = self._state, {}
        for side, rows in chosen.items():
            decrements[side] = float(state.decrements(side, rows, state.sides[side].kept[rows]).sum())
        side = max(decrements, key=lambda side: decrements[side])
        rows, kept = chosen[side], state.sides[side].kept[chosen[side]]
        by, _ = state.preconditioner(side).steps(state.sides[side], rows, kept)
        curvature = _dot(by, state.sides[side].products(rows, by, state.sides[side.other]))
        along = _dot(kept, by) + _dot(state.residual(side, rows), by)
        under_root = along**2 - 2 * rise * curvature
        if not (curvature > 0 and along > 0 and under_root > 0):
            return LossChange()
        share = 2 * rise / (along + math.sqrt(under_root))
        if share > most:
            return LossChange()
        state.give_up_kept(side, rows, share)
        return state.move(side, rows, state.sides[side].factors.vectors[rows] + by.dtype.type(share) * by)


def _lowers(change: LossChange) -> bool:
    """Whether a move raises neither what is to be removed nor the loss."""
    return change.pending <= 0 and change.whole <= change.rounding


def _solved(solver: Solver, problem: PendingRows) -> Tensor:
    return minimize(problem, problem.start, solver=solver).value


def _dots(a: Floats, b: Floats) -> Floats:
    """The product of each row of one with that of the other."""
    dots: Floats = np.einsum("rj,rj->r", a, b)
    return dots


def _dot(a: Floats, b: Floats) -> float:
    return float(np.sum(a * b, dtype=np.float64))


def _squares(parts: dict[Side, Floats]) -> float:
    return sum(_dot(values, values) for values in parts.values())
