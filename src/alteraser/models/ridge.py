"""The row problems of the quadratic family: with the other side fixed, each row is a ridge regression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alteraser.data.csr import CSR
from alteraser.errors import ModelError
from alteraser.kernels.descent import descend_rows
from alteraser.kernels.entries import add_residuals, cross_products, entry_scores, entry_sums
from alteraser.kernels.rows import factorise_rows, solve_rows, substitute_rows
from alteraser.kernels.sparse import FixedFactors, RowWeights, Schedule, SparseRows, longest_first
from alteraser.kernels.tiles import padded
from alteraser.models.blocks import SumBlocks, blocks_of, sum_here
from alteraser.optim.problem import Expansion, RowProblem

# Hessian products until conjugate gradients end. At the tolerance of `cg_newton`, nine in ten rows of MovieLens-1M
# (d = 64) take at most 3; one more is counted, since the exact solution is the safer of the two.
EXPECTED_PRODUCTS = 4
ALL_ROWS = slice(None)


@dataclass(frozen=True, eq=False)
class RidgeTerms:
    """What the row problems of one side are made of besides its interactions."""

    fixed: Tensor  # [n_columns, d], the other side's scaled factors
    missing_row: Tensor  # [n_rows]
    missing_column: Tensor  # [n_columns]
    l2: Tensor  # [n_rows]
    h: Tensor  # [d], what the other side's factors are scaled with
    gram: Tensor  # [d, d], Σ_c m_c x_c x_cᵀ over all columns

    def on(self, data: CSR) -> RidgeSide:
        return RidgeSide(data, self)

    def to(self, dtype: torch.dtype) -> RidgeTerms:
        fixed, missing_column = self.fixed.to(dtype), self.missing_column.to(dtype)
        return RidgeTerms(
            fixed,
            self.missing_row.to(dtype),
            missing_column,
            self.l2.to(dtype),
            self.h.to(dtype),
            weighted_gram(fixed, missing_column, dtype),
        )

    @cached_property
    def in_own_basis(self) -> tuple[Tensor, Tensor, Tensor]:
        """The eigenvectors of the gram as columns, its eigenvalues, and the fixed vectors in that basis."""
        values, vectors = torch.linalg.eigh(self.gram.double())
        basis = vectors.to(self.fixed.dtype)
        return basis, values.clamp_min(0).to(basis.dtype), self.fixed @ basis


@dataclass(frozen=True, eq=False)
class RidgeSide:
    """All row problems of one side while the other side stays as it is."""

    data: CSR
    terms: RidgeTerms

    @property
    def missing_row(self) -> Tensor:
        return self.terms.missing_row

    @property
    def l2(self) -> Tensor:
        return self.terms.l2

    def block(self, rows: NDArray[np.int64]) -> RidgeRows:
        return RidgeRows(self, rows)

    def residual(self, own: Tensor, rows: slice = ALL_ROWS) -> Tensor:
        terms, entries = self.terms, sparse_rows(self.data, rows)
        own, missing_row = own[rows].contiguous(), terms.missing_row[rows]
        residual = -(own * missing_row[:, None]) @ terms.gram - own * terms.l2[rows, None]
        schedule = longest_first(np.arange(len(own)), entries)
        add_residuals(schedule, entries, own.numpy(), self._fixed, missing_row.numpy(), residual.numpy())
        return residual

    def cross(self, own: Tensor, change: Tensor) -> Tensor:
        own, change = own.contiguous(), (change * self.terms.h).contiguous()
        spread = (change * self.terms.missing_column[:, None]).T @ self.terms.fixed
        products = (own * self.missing_row[:, None]) @ (spread + spread.T)
        cross_products(
            self._schedule,
            self._rows,
            own.numpy(),
            self._fixed,
            change.numpy(),
            self._weights.missing,
            products.numpy(),
        )
        return products

    def factorised(self, space: NDArray[Any] | None = None) -> RidgeFactors | None:
        fixed, n, d = self._fixed, len(self.l2), self.terms.fixed.shape[1]
        space = np.empty((n, padded(d) ** 2), fixed.vectors.dtype) if space is None else space
        solved = np.empty(n, dtype=np.bool_)
        gram = self.terms.gram.numpy()
        factorise_rows(self._schedule, self._rows, fixed, gram, self._weights, space, solved)
        return RidgeFactors(space) if solved.all() else None

    @cached_property
    def _schedule(self) -> Schedule:
        """All rows, each at its own place."""
        return longest_first(np.arange(len(self.l2)), self._rows)

    @property
    def _rows(self) -> SparseRows:
        return sparse_rows(self.data)

    @property
    def _fixed(self) -> FixedFactors:
        return FixedFactors(self.terms.fixed.numpy(), self.terms.missing_column.numpy())

    @property
    def _weights(self) -> RowWeights:
        return RowWeights(self.missing_row.numpy(), self.l2.numpy())


@dataclass(frozen=True, eq=False)
class RidgeFactors:
    """The factorised matrices A of all rows of a side: half their Hessians."""

    space: NDArray[Any]  # [n_rows, padded(d)²]

    def solve(self, vectors: Tensor) -> Tensor:
        solution = vectors.clone(memory_format=torch.contiguous_format)
        substitute_rows(self.space, solution.numpy())
        return solution


@dataclass(frozen=True, eq=False)
class RidgeRows(RowProblem):
    """A block of rows of a side. Function i, of the vector y of row i, is the part of L in which y occurs:

    Σ_c w_c (1 − y·x_c)² − m_r m_c (y·x_c)²  over the row's entries,  + m_r yᵀ·gram·y + l2_r ‖y‖²
    """

    quadratic: ClassVar[bool] = True
    side: RidgeSide
    rows: NDArray[np.int64]

    def value(self, x: Tensor) -> Tensor:
        terms, (weights, excess, owner) = self.side.terms, self._entries
        score = _scores(x, self)
        of_entries = weights - 2 * weights * score + excess * score**2
        entries = torch.zeros(len(x), dtype=x.dtype).index_add(0, owner, of_entries)
        rows = torch.from_numpy(self.rows)
        missing = terms.missing_row[rows] * ((x @ terms.gram) * x).sum(1)
        return entries + missing + terms.l2[rows] * x.square().sum(1)

    def hessian(self, x: Tensor) -> Tensor:
        """2A of each row, whatever x is."""
        terms, (_, excess, _) = self.side.terms, self._entries
        rows, identity = torch.from_numpy(self.rows), torch.eye(x.shape[1], dtype=x.dtype)
        matrix = terms.missing_row[rows, None, None] * terms.gram + terms.l2[rows, None, None] * identity
        for place, (first, last) in enumerate(pairwise(self._first.tolist())):
            vectors = terms.fixed[self._columns[first:last]]
            matrix[place].addmm_(vectors.T, excess[first:last, None] * vectors)
        return matrix.mul_(2)

    def expand_gauss_newton(self, x: Tensor) -> Expansion:
        """The expansion itself. Value: weighted squares over all columns, of scores that are linear in the row,

        so that 2JᵀWJ = 2 Σ_c excess_c x_c x_cᵀ + 2 m_r·gram + 2 l2_r·I is no approximation of the Hessian here.
        """
        return self.expand(x)

    def alone(self, place: int, x: Tensor) -> RidgeRows:
        del x
        return RidgeRows(self.side, self.rows[place : place + 1])

    def minimum(self) -> Tensor:
        """A⁻¹ Σ_c w_c x_c of each row by the fused kernel; rows it cannot factorise again in double precision."""
        vectors, solved = self._solve()
        if not solved.all():
            failed = np.flatnonzero(~solved)
            double = self.side.terms.to(torch.float64).on(self.side.data)
            again, solved = RidgeRows(double, self.rows[failed])._solve()
            if not solved.all():
                raise ModelError(
                    f"{int((~solved).sum())} of {len(self.rows)} rows have no single answer in double precision. "
                    f"Raise l2 and train again."
                )
            vectors[failed] = again
        return torch.from_numpy(vectors)

    def descended(self, x: Tensor, *, tolerance: float, max_products: int) -> Tensor:
        """Each row from x down by conjugate gradients, or at its minimum where that is less work."""
        side, d = self.side, x.shape[1]
        counts = np.diff(self._first)
        # Each product, and the residual to begin with, takes 4·d operations an entry; a matrix d² and its factor d³/3.
        by_products = 4 * d * (EXPECTED_PRODUCTS + 1) * counts < d**2 * counts + d**3 / 3
        basis, spectrum, fixed = side.terms.in_own_basis
        rows = np.flatnonzero(by_products)
        vectors = x[torch.from_numpy(rows)] @ basis
        descend_rows(
            self.rows[rows],
            side._rows,
            vectors=vectors.numpy(),
            fixed=side._fixed._replace(vectors=fixed.numpy()),
            spectrum=spectrum.numpy(),
            weights=side._weights,
            tolerance=tolerance,
            max_products=max_products,
        )
        reached = x.clone()
        reached[torch.from_numpy(rows)] = vectors @ basis.T
        if not by_products.all():
            others = np.flatnonzero(~by_products)
            reached[torch.from_numpy(others)] = RidgeRows(side, self.rows[others]).minimum()
        return reached

    def _solve(self) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        side = self.side
        gram = side.terms.gram.numpy()
        return solve_rows(self.rows, side._rows, fixed=side._fixed, gram=gram, weights=side._weights)

    @cached_property
    def _first(self) -> NDArray[np.int64]:
        """Where each row's entries begin when the block's entries stand one after another; the last is their number."""
        starts = self.side.data.starts
        return np.concatenate([[0], np.cumsum(starts[self.rows + 1] - starts[self.rows])])

    @cached_property
    def _columns(self) -> Tensor:
        data = self.side.data
        return torch.from_numpy(data.columns[data.entries_of(self.rows)]).long()

    @cached_property
    def _entries(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of each entry of the block: its weight w, its excess weight w − m_r m_c, its row in the block."""
        data, terms = self.side.data, self.side.terms
        owner = torch.from_numpy(np.repeat(np.arange(len(self.rows)), np.diff(self._first)))
        weights = torch.from_numpy(data.weights[data.entries_of(self.rows)]).to(terms.fixed.dtype)
        missing = terms.missing_row[torch.from_numpy(self.rows)][owner] * terms.missing_column[self._columns]
        return weights, weights - missing, owner

    def scores_of(self, vectors: Tensor) -> Tensor:
        """y·x_c of every entry of the block."""
        scores = torch.empty(int(self._first[-1]), dtype=vectors.dtype)
        own, fixed = vectors.contiguous().numpy(), self.side.terms.fixed.numpy()
        entry_scores(self.rows, self._first, self.side._rows, own, fixed, scores.numpy())
        return scores

    def sums_of(self, values: Tensor) -> Tensor:
        """Σ_c value_c x_c of every row of the block: the transpose of `scores_of`."""
        sums = torch.empty(len(self.rows), self.side.terms.fixed.shape[1], dtype=values.dtype)
        given, fixed = values.contiguous().numpy(), self.side.terms.fixed.numpy()
        entry_sums(self.rows, self._first, self.side._rows, given, fixed, sums.numpy())
        return sums


class _Scores(torch.autograd.Function):
    """`scores_of` for autograd: linear, so its derivative is its transpose and the derivative of that is itself."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, rows: RidgeRows) -> Tensor:
        ctx.rows = rows
        return rows.scores_of(vectors.detach())

    @staticmethod
    def backward(ctx: Any, values: Tensor) -> tuple[Tensor, None]:
        return _sums(values, ctx.rows), None


class _Sums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, rows: RidgeRows) -> Tensor:
        ctx.rows = rows
        return rows.sums_of(values.detach())

    @staticmethod
    def backward(ctx: Any, vectors: Tensor) -> tuple[Tensor, None]:
        return _scores(vectors, ctx.rows), None


_scores: Callable[[Tensor, RidgeRows], Tensor] = _Scores.apply
_sums: Callable[[Tensor, RidgeRows], Tensor] = _Sums.apply


def sparse_rows(data: CSR, rows: slice = ALL_ROWS) -> SparseRows:
    """The compressed data, or some rows of it, as kernels take it, without a copy."""
    whole = SparseRows.from_csr(data.starts, data.columns, data.weights)
    return whole._replace(starts=whole.starts[rows], stops=whole.stops[rows])


def weighted_gram(
    table: Tensor, weights: Tensor, dtype: torch.dtype, sum_blocks: SumBlocks = sum_here
) -> Tensor:
    """Σ_r weights_r y_r y_rᵀ over the rows of a table, without a copy of it."""
    return sum_blocks(partial(_gram_of_block, dtype), blocks_of(len(table)), table, weights)


def _gram_of_block(dtype: torch.dtype, rows: slice, table: Tensor, weights: Tensor) -> Tensor:
    vectors = table[rows].to(dtype)
    return (vectors * weights[rows, None].to(dtype)).T @ vectors
