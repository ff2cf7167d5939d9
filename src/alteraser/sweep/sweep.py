"""One alternating pass, shared by ALS training and AltEraser: an erase pass is an ALS epoch over fewer rows."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alteraser.data.csr import CSR
from alteraser.data.interactions import Interactions, Side
from alteraser.errors import SettingError
from alteraser.models.base import Factored, RowTerms
from alteraser.optim.minimize import Solver, Status, minimize
from alteraser.sweep.executors import Executor, Local, SumBy

log = logging.getLogger(__name__)
Model = TypeVar("Model", bound=Factored)
OnPass = Callable[[int, Model], None]
OutOfTime = Callable[[], bool]
Progress = Callable[[int, int, float], None]
"""Called after each pass or epoch with how many are done, how many there are at most, and the loss."""


def never() -> bool:
    """Never runs out of time."""
    return False


def rounding(model: Factored) -> float:
    """How much of the loss may be rounding errors of a model's tables."""
    return max(16 * torch.finfo(model.table(model.sides[0]).dtype).eps, 1e-12)


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """The rows a pass visits on each side."""

    by_side: dict[Side, NDArray[np.int64]]

    @classmethod
    def occupied(cls, data: Interactions) -> Self:
        """Every user and item that has interactions in `data`."""
        return cls({side: data.by(side).occupied for side in Side})

    def of(self, side: Side) -> NDArray[np.int64]:
        return self.by_side[side]

    def blocks(self, side: Side, block_rows: int) -> Iterator[NDArray[np.int64]]:
        rows = self.of(side)
        for start in range(0, len(rows), block_rows):
            yield rows[start : start + block_rows]

    def __len__(self) -> int:
        return sum(len(rows) for rows in self.by_side.values())

    def __repr__(self) -> str:
        return f"Rows({', '.join(f'{len(rows)} {side.value}' for side, rows in self.by_side.items())})"


@dataclass(frozen=True)
class Sweeper:
    """How a pass is made: the solver for a block of rows, the rows in a block, where blocks run, and Φ or not.

    The size of a block is a setting and follows neither threads nor machines, so that results do not either. 4,096 rows
    are enough to keep the threads of one machine busy; a usual value.
    """

    solver: Solver
    block_rows: int = 4096
    executor: Executor = Local()
    solve_shared: bool = False

    def __post_init__(self) -> None:
        if self.block_rows < 1:
            raise SettingError(f"block_rows is {self.block_rows}; a whole number from 1 up is wanted.")

    def sweep(self, model: Model, data: Interactions, rows: Rows) -> Model:
        """One pass: each side in turn while the others are fixed, users first, then items; then Φ if asked."""
        model = self.halves(model, data, rows, model.sides)
        return model.solve_shared(data, sum_blocks=self._sum) if self.solve_shared else model

    def loss(self, model: Factored, data: Interactions) -> float:
        """L, its blocks run by the executor."""
        return model.loss(data, sum_blocks=self._sum)

    def gradient_norm(self, model: Factored, data: Interactions) -> float:
        """The norm of the gradient of L in all rows, its blocks run by the executor."""
        return model.gradient_norm(data, sum_blocks=self._sum)

    @property
    def _sum(self) -> SumBy:
        return SumBy(self.executor)

    def halves(self, model: Model, data: Interactions, rows: Rows, sides: Sequence[Side]) -> Model:
        """Some sides in turn, each while the others are fixed."""
        for side in sides:
            model = self.half(model, data, rows, side)
        return model

    def half(self, model: Model, data: Interactions, rows: Rows, side: Side) -> Model:
        """The rows of one side at their minimum, all else fixed; a row without interactions becomes an empty row."""
        if len(rows.of(side)) == 0:
            return model
        terms = model.row_problems(side, data, sum_blocks=self._sum).terms
        placed = [self.executor.place(value) for value in (data.by(side), terms)]
        table, begin = model.table(side), 0
        vectors = table.new_empty((len(rows.of(side)), table.shape[1]))
        # Of the table that is being solved a block needs its own rows alone: they travel with it.
        blocks = ((some, table[torch.from_numpy(some)]) for some in rows.blocks(side, self.block_rows))
        solve = partial(_solve_block, self.solver, model.empty_row(side))
        for block in self.executor.map(solve, blocks, *placed):
            vectors[begin : begin + len(block)] = block
            begin += len(block)
        return model.with_rows(side, rows.of(side), vectors)


class Advance(Protocol[Model]):
    """A pass, or what stands in its place: from a model and its loss to one whose loss is no higher, and that loss."""

    def __call__(self, model: Model, loss: float) -> tuple[Model, float]: ...


class Acceleration(Protocol):
    """A way to need fewer passes."""

    def begin(self, sweeper: Sweeper, model: Model, data: Interactions) -> Advance[Model]: ...


@dataclass(frozen=True, eq=False)
class Repeated(Generic[Model]):
    """Where repeated passes led, the loss before the first and after each, and whether they met the tolerance."""

    model: Model
    losses: list[float]
    converged: bool

    @property
    def n_passes(self) -> int:
        return len(self.losses) - 1


def check_stopping_rule(max_passes: int, tolerance: float) -> None:
    """Raises unless both are from 0 up."""
    if max_passes < 0 or not tolerance >= 0:
        raise SettingError(f"max_passes is {max_passes} and tolerance {tolerance}; both must be 0 or more.")


def repeat(
    sweeper: Sweeper,
    model: Model,
    data: Interactions,
    *,
    max_passes: int,
    tolerance: float,
    loss: float | None = None,
    loss_goal: float = -math.inf,
    out_of_time: OutOfTime = never,
    acceleration: Acceleration | None = None,
    progress: Progress | None = None,
    on_pass: OnPass[Model] | None = None,
) -> Repeated[Model]:
    """Passes over all occupied rows until one lowers the loss by less than `tolerance` of it, or `max_passes`.

    They also end where the loss is at most `loss_goal`, and none begins when it is `out_of_time`. A pass that would
    raise the loss is taken back and is the last; if it is by more than rounding, they have not converged. `loss` is
    the model's, if it is known. `on_pass` is called with the number of passes made and the model they led to, which is
    the one that so many passes would end with.
    """
    check_stopping_rule(max_passes, tolerance)
    losses = [sweeper.loss(model, data) if loss is None else loss]
    advance = passes_over(sweeper, model, data, acceleration)
    for done in range(1, max_passes + 1):
        if out_of_time():
            break
        after, reached = advance(model, losses[-1])
        fall = losses[-1] - reached
        if fall >= 0:
            model = after
        losses.append(reached if fall >= 0 else losses[-1])
        if progress is not None:
            progress(done, max_passes, losses[-1])
        if on_pass is not None:
            on_pass(done, model)
        if not fall >= -rounding(model) * losses[-2]:
            return Repeated(model, losses, converged=False)
        if losses[-1] <= loss_goal or fall < tolerance * losses[-2]:
            return Repeated(model, losses, converged=True)
    return Repeated(model, losses, converged=False)


def passes_over(
    sweeper: Sweeper, model: Model, data: Interactions, acceleration: Acceleration | None
) -> Advance[Model]:
    """Passes over all occupied rows, accelerated if asked and possible."""
    # The step for Φ rescales the tables, so that those of two passes cannot be compared.
    if acceleration is None or sweeper.solve_shared:
        return _Plain(sweeper, data)
    return acceleration.begin(sweeper, model, data)


@dataclass(frozen=True, eq=False)
class _Plain:
    """Passes as they are."""

    sweeper: Sweeper
    data: Interactions

    def __call__(self, model: Model, loss: float) -> tuple[Model, float]:
        del loss
        model = self.sweeper.sweep(model, self.data, Rows.occupied(self.data))
        return model, self.sweeper.loss(model, self.data)


def _solve_block(
    solver: Solver, empty: Tensor, block: tuple[NDArray[np.int64], Tensor], data: CSR, terms: RowTerms
) -> Tensor:
    """The minimum of each row of a block, from where it is."""
    rows, start = block
    # The model knows the minimum of an empty row, and nothing of a forgotten row may be left by an inexact solver, not
    # even the sign of a zero: such rows are not solved at all.
    solved = empty.repeat(len(rows), 1)
    occupied = data.starts[rows + 1] > data.starts[rows]
    if occupied.any():
        if not occupied.all():
            rows, start = rows[occupied], start[torch.from_numpy(occupied)]
        solution = minimize(terms.on(data).block(rows), start, solver=solver)
        if solution.status is not Status.CONVERGED:
            log.debug("A block of %d rows ended after %d steps, not converged", len(start), solution.steps)
        solved[torch.from_numpy(occupied)] = solution.value
    return solved
