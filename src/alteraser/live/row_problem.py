"""The row problems of a live model, as solvers take them."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alteraser.data.interactions import Side
from alteraser.live.state import LiveState
from alteraser.models.ridge import RidgeRows, RidgeSide
from alteraser.optim.problem import Expansion, RowProblem


class PendingRows(RowProblem):
    """Function i, of the vector y of rows[i], is the part of L in which y occurs, plus 2·t·y.

    t is the row's prior residual: where the function is at its minimum, the residual of L is t again, so that a row
    that was short of its optimum before the request is so after it.
    """

    quadratic: ClassVar[bool] = True

    def __init__(self, state: LiveState[Any], side: Side, rows: NDArray[np.int64]) -> None:
        self._state, self._side, self._rows = state, side, rows

    @property
    def start(self) -> Tensor:
        """The vectors of the rows as they are."""
        return torch.from_numpy(self._state.sides[self._side].factors.vectors[self._rows])

    @cached_property
    def _prior(self) -> Tensor:
        return torch.from_numpy(self._state.prior_residual(self._side, self._rows))

    @cached_property
    def _ridge(self) -> RidgeRows:
        own, other = self._state.sides[self._side], self._state.sides[self._side.other].factors
        side = RidgeSide(
            data=own.entries.packed(self._rows),
            fixed=torch.from_numpy(other.h * other.vectors),
            missing_row=torch.from_numpy(own.factors.missing[self._rows]),
            missing_column=torch.from_numpy(other.missing),
            l2=torch.from_numpy(own.factors.l2[self._rows]),
            h=torch.from_numpy(other.h),
        )
        return side.block(np.arange(len(self._rows)))

    def value(self, x: Tensor) -> Tensor:
        return self._ridge.value(x) + 2 * (self._prior * x).sum(1)

    def hessian(self, x: Tensor) -> Tensor:
        return self._ridge.hessian(x)

    def expand_gauss_newton(self, x: Tensor) -> Expansion:
        """The expansion itself: the scores are linear in the row, so that Gauss-Newton's matrix is the Hessian."""
        return self.expand(x)

    def alone(self, place: int, x: Tensor) -> PendingRows:
        del x
        return PendingRows(self._state, self._side, self._rows[place : place + 1])

    def minimum(self) -> Tensor:
        """The rows moved by A⁻¹ times their pending residual; one that cannot be factorised stays where it is."""
        step = self._state.pending_residual(self._side, self._rows)
        step[~self._state.solve_rows(self._side, self._rows, step)] = 0
        return self.start + torch.from_numpy(step)
