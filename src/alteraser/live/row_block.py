"""Some rows of a live model as ridge problems of their own, which can be solved here or elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alteraser.data.csr import CSR
from alteraser.kernels.entries import add_residuals
from alteraser.kernels.jit import threads_for
from alteraser.kernels.rows import factorise_rows, substitute_rows
from alteraser.kernels.sparse import FixedFactors, RowWeights, SparseRows, longest_first
from alteraser.kernels.tiles import padded
from alteraser.live.factors import times
from alteraser.models.ridge import RidgeRows, RidgeTerms
from alteraser.optim.problem import Expansion, RowProblem

Floats = NDArray[Any]


class RowBlock(NamedTuple):
    """The entries of some rows, one row after another, what they lead to, the rows' weights, and Ĝ."""

    entries: SparseRows
    fixed: FixedFactors
    weights: RowWeights
    gram: Floats

    def __len__(self) -> int:
        return len(self.entries.starts)

    def residual(self, vectors: Floats) -> Floats:
        """Half of minus the gradient of the loss in the rows, where they are `vectors`."""
        residual: Floats = -self.weights.missing[:, None] * times(vectors, self.gram)
        residual -= self.weights.ridge[:, None] * vectors
        with threads_for(4 * len(self.entries.columns) * vectors.shape[1]):
            schedule = longest_first(np.arange(len(vectors)), self.entries)
            add_residuals(schedule, self.entries, vectors, self.fixed, self.weights.missing, residual)
        return residual

    def solve(self, right_sides: Floats) -> None:
        """Turns each right side b into A⁻¹b, A being half the row's Hessian; into zero where that fails."""
        n, d = right_sides.shape
        cholesky, solved = np.empty((n, padded(d) ** 2), right_sides.dtype), np.empty(n, np.bool_)
        with threads_for(2 * len(self.entries.columns) * d * d + n * d**3 / 3):
            schedule = longest_first(np.arange(n), self.entries)
            factorise_rows(schedule, self.entries, self.fixed, self.gram, self.weights, cholesky, solved)
            substitute_rows(cholesky, right_sides)
        right_sides[~solved] = 0

    def row(self, place: int) -> RowBlock:
        """One of the rows, alone."""
        starts, stops, columns, weights = self.entries
        some = slice(starts[place], stops[place])
        count = stops[place : place + 1] - starts[place]
        alone = SparseRows(np.zeros(1, np.int64), count, columns[some].copy(), weights[some].copy())
        one = RowWeights(*(values[place : place + 1].copy() for values in self.weights))
        return RowBlock(alone, self.fixed, one, self.gram)


@dataclass(frozen=True, eq=False)
class PendingRows(RowProblem):
    """Function i, of the vector y of row i, is the part of L in which y occurs, plus 2·t·y.

    t is what the row keeps of its residual: where the function is at its minimum, the residual of L is t, so that a row
    that was short of its optimum before the request is so after it.
    """

    quadratic: ClassVar[bool] = True
    block: RowBlock
    start: Tensor  # the rows as they are
    kept: Tensor  # what they keep of their residuals

    @cached_property
    def _ridge(self) -> RidgeRows:
        entries, fixed, weights, gram = self.block
        terms = RidgeTerms(
            fixed=torch.from_numpy(fixed.vectors),
            missing_row=torch.from_numpy(weights.missing),
            missing_column=torch.from_numpy(fixed.missing),
            l2=torch.from_numpy(weights.ridge),
            h=torch.ones(len(gram), dtype=self.start.dtype),  # the factors are scaled already
            gram=torch.from_numpy(gram),
        )
        csr = CSR(np.append(entries.starts, entries.stops[-1:]), entries.columns, entries.weights)
        return terms.on(csr).block(np.arange(len(self.block)))

    def value(self, x: Tensor) -> Tensor:
        return self._ridge.value(x) + 2 * (self.kept * x).sum(1)

    def hessian(self, x: Tensor) -> Tensor:
        return self._ridge.hessian(x)

    def expand_gauss_newton(self, x: Tensor) -> Expansion:
        """The expansion itself: the scores are linear in the row, so that Gauss-Newton's matrix is the Hessian."""
        return self.expand(x)

    def alone(self, place: int, x: Tensor) -> PendingRows:
        del x
        some = slice(place, place + 1)
        return PendingRows(self.block.row(place), self.start[some], self.kept[some])

    def minimum(self) -> Tensor:
        """The rows moved by A⁻¹ times what is to be removed; one that cannot be factorised stays where it is."""
        step = self.block.residual(self.start.numpy()) - self.kept.numpy()
        self.block.solve(step)
        return torch.from_numpy(self.start.numpy() + step)
