"""The vectors of one side of a live model, and the sums over them that the other side needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from alteraser.data.growing import appended
from alteraser.data.interactions import Interactions, Side
from alteraser.kernels import live as kernels
from alteraser.models.base import Quadratic
from alteraser.models.ridge import weighted_gram

Floats = NDArray[Any]
# Multiplications of a matrix product; with fewer, numpy keeps its own threads out of it. A usual limit of OpenBLAS.
SMALL_PRODUCT = 2**18


class SideFactors:
    """The vectors y_r of a side with their weights m_r and λ_r; it alone writes the sums.

    `gram` is Σ m (h ⊙ y)(h ⊙ y)ᵀ over all rows, Ĝ for the other side's residuals. Those are stored with the Ĝ₀ of
    when the storing began (`residuals.py`), so that two earlier matrices are kept: the one that deferred residuals
    are stored with, and the one that pending residuals are, which is that of when the request came.
    """

    def __init__(self, model: Quadratic, side: Side, data: Interactions) -> None:
        own, (missing, l2) = model.table(side), model.row_weights(side, data.by(side).counts)
        self.h = model.h.numpy().copy()
        self.vectors: Floats = own.numpy().copy()
        self.missing: Floats = missing.astype(self.vectors.dtype)
        self.l2: Floats = l2.astype(self.vectors.dtype)
        self.squared_norms: Floats = np.square(self.h * self.vectors).sum(1)  # ‖h ⊙ y‖²
        self._outer = np.outer(self.h, self.h).astype(np.float64)
        self._unscaled = bool((self.h == 1).all())
        weights = torch.from_numpy(self.missing).double()
        self.gram: NDArray[np.float64] = weighted_gram(own, weights, torch.float64).numpy() * self._outer
        self.sum_m2_yy: NDArray[np.float64] = weighted_gram(own, weights.square(), torch.float64).numpy()
        self._gram_of_deferred, self._gram_of_pending = self.gram.copy(), self.gram.copy()
        # Computed when they are asked for after they have changed.
        self._pending_correction: Floats | None = None
        self._deferred_correction: Floats | None = None

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def arrays(self) -> kernels.Factors:
        return kernels.Factors(self.vectors, self.missing)

    @property
    def deferred_correction(self) -> Floats:
        """The change of the Gram matrix from what deferred residuals are stored with to when the request came."""
        if self._deferred_correction is None:
            change = self._gram_of_pending - self._gram_of_deferred
            self._deferred_correction = change.astype(self.vectors.dtype)
        return self._deferred_correction

    @property
    def pending_correction(self) -> Floats:
        """The change of the Gram matrix since the request came."""
        if self._pending_correction is None:
            self._pending_correction = (self.gram - self._gram_of_pending).astype(self.vectors.dtype)
        return self._pending_correction

    @property
    def pending_correction_in_double(self) -> NDArray[np.float64]:
        """The same in double precision, for sums over many rows."""
        return self.gram - self._gram_of_pending

    @property
    def correction_in_double(self) -> NDArray[np.float64]:
        """Both changes together, in double precision."""
        return self.gram - self._gram_of_deferred

    def weighted_by_m(self, rows: NDArray[np.int64]) -> Floats:
        """m_r·y_r of some rows."""
        weighted: Floats = self.missing[rows, None] * self.vectors[rows]
        return weighted

    def spanned(self) -> NDArray[np.float64]:
        """A matrix that spans what the vectors span: Σ m² y yᵀ, or Σ y yᵀ where no row weighs anything."""
        return self.sum_m2_yy if self.sum_m2_yy.any() else self.sum_yy()

    def sum_yy(self) -> NDArray[np.float64]:
        """Σ y yᵀ."""
        vectors = self.vectors.astype(np.float64)
        moments: NDArray[np.float64] = vectors.T @ vectors
        return moments

    def unweighted_gram(self) -> NDArray[np.float64]:
        """Σ (h ⊙ y)(h ⊙ y)ᵀ."""
        return self._outer * self.sum_yy()

    def rebase_pending(self) -> None:
        """Stores pending residuals with the Gram matrix of now: what changes from here on is the next request's."""
        self._gram_of_pending = self.gram.copy()
        self._pending_correction = self._deferred_correction = None

    def rebase_deferred(self) -> None:
        """Stores deferred residuals with the Gram matrix of now: there are none, and the next ones begin here."""
        self._gram_of_deferred, self._deferred_correction = self.gram.copy(), None

    def add_to_sums(self, moments: Floats, sum_m2_yy: Floats) -> None:
        """Adds the changes of Σ m y yᵀ and of Σ m² y yᵀ by a move."""
        self.gram += moments if self._unscaled else self._outer * moments
        self.sum_m2_yy += sum_m2_yy
        self._pending_correction = None

    def grow(self, missing: Floats, l2: Floats) -> None:
        """Appends empty rows, at zero, with these weights."""
        kind, n = self.vectors.dtype, len(missing)
        self.vectors = appended(self.vectors, np.zeros((n, self.vectors.shape[1]), kind))
        self.missing = appended(self.missing, missing.astype(kind))
        self.l2 = appended(self.l2, l2.astype(kind))
        self.squared_norms = appended(self.squared_norms, np.zeros(n, kind))


def times(a: Floats, b: Floats) -> Floats:
    """a @ b in the precision of a, by torch: numpy's threads go on spinning after a product and hold up the kernels."""
    b = b.astype(a.dtype, copy=False)
    if a.size * b.shape[1] < SMALL_PRODUCT:
        small: Floats = a @ b
        return small
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # before others were awake it would be over
    try:
        return (torch.from_numpy(a) @ torch.from_numpy(b)).numpy()
    finally:
        torch.set_num_threads(before)
