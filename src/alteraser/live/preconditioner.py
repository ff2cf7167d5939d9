"""A preconditioner that all rows of a side share, and what it tells of a residual's worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alteraser.kernels.residuals import estimate_decrements
from alteraser.live.factors import SideFactors, times
from alteraser.live.side import SideState
from alteraser.models.dimensions import symmetric_eigen

Floats = NDArray[Any]
# The share of m that α is at least, where entries weigh less than missing ones, so that it stays positive. Set by hand.
LEAST_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """(α_r·Ĝ + λ_r·I)⁻¹ with α_r such that the trace is that of half the row's own Hessian.

    All rows share the eigenvectors of Ĝ, so that no row is ever factorised.
    """

    basis: Floats  # the eigenvectors of Ĝ, as columns
    spectrum: Floats  # its eigenvalues, [d]
    trace: Any  # their sum
    # false where Ĝ is zero, as missing entries weigh nothing, and another matrix stands for it
    weighted: bool

    @classmethod
    def of(cls, other: SideFactors) -> Preconditioner:
        """From the factors of the other side: its Gram matrix, or the one without weights where that is zero."""
        weighted = bool(other.gram.trace() > 0)
        values, vectors = symmetric_eigen(other.gram if weighted else other.unweighted_gram())
        kind = other.vectors.dtype
        spectrum = np.maximum(values, 0).astype(kind)
        return cls(vectors.astype(kind), spectrum, spectrum.sum(), weighted)

    def alpha(self, own: SideState, rows: NDArray[np.int64]) -> Floats:
        kind = own.factors.vectors.dtype
        missing: Floats = own.factors.missing[rows] if self.weighted else np.zeros(len(rows), kind)
        if not self.trace > 0:
            return missing
        positive: Floats = np.maximum(missing + own.entry_traces[rows] / self.trace, missing * LEAST_SHARE)
        return positive

    def scales(self, own: SideState, rows: NDArray[np.int64]) -> Floats:
        """1 / (α_r·spectrum + λ_r) of some rows, [k, d]: the preconditioner in its basis."""
        scales: Floats = 1 / (self.alpha(own, rows)[:, None] * self.spectrum + own.factors.l2[rows, None])
        return scales

    def steps(self, own: SideState, rows: NDArray[np.int64], residual: Floats) -> tuple[Floats, Floats]:
        """(α_r·Ĝ + λ_r·I)⁻¹ residual of some rows; stepᵀ(m_r·Ĝ + λ_r·I)·step, its curvature but for entries'."""
        missing, l2 = own.factors.missing[rows], own.factors.l2[rows]
        turned = times(residual, self.basis)
        turned *= self.scales(own, rows)
        squares = np.square(turned)
        curvatures: Floats = l2 * squares.sum(1)
        if self.weighted:
            curvatures += missing * np.einsum("rj,j->r", squares, self.spectrum)
        return times(turned, self.basis.T), curvatures

    def mean_curvature(self, own: SideState, rows: NDArray[np.int64]) -> Floats:
        """The mean eigenvalue of α_r·Ĝ + λ_r·I of some rows."""
        mean: Floats = self.alpha(own, rows) * (self.trace / len(self.spectrum)) + own.factors.l2[rows]
        return mean

    def decrements(self, own: SideState, rows: NDArray[np.int64], residual: Floats) -> NDArray[np.float64]:
        """About rᵀA⁻¹r of each row."""
        decrements = np.empty(len(rows))
        alpha, l2 = self.alpha(own, rows), own.factors.l2[rows]
        estimate_decrements(residual, alpha, l2, self.spectrum, decrements)
        return decrements
