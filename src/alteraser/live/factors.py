"""The vectors of one side of a live model, and the Gram matrix over them that the other side needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from alteraser.data.growing import appended
from alteraser.data.interactions import Interactions, Side
from alteraser.kernels import live as kernels
from alteraser.kernels.jit import n_threads
from alteraser.models.base import Quadratic
from alteraser.models.ridge import weighted_gram

Floats = NDArray[Any]
# Multiplications of a matrix product; with fewer, numpy keeps its own threads out of it. A usual limit of OpenBLAS,
# whose threads spin when a product is over. On two busy cores they held up the product of some thousand rows for a
# tenth of a second, and the eigenvalues of a small matrix as long: neither is left to numpy in a live model.
SMALL_PRODUCT = 2**18
# With fewer than so many one thread is enough: the product is over before others are awake. Set by hand.
MEDIUM_PRODUCT = 2**26


class SideFactors:
    """The vectors y_r of a side with their weights m_r and λ_r; it alone writes the sums over them.

    `gram` is Σ m (h ⊙ y)(h ⊙ y)ᵀ over all rows, Ĝ for the other side's residuals.
    """

    def __init__(self, model: Quadratic, side: Side, data: Interactions) -> None:
        own, (missing, l2) = model.table(side), model.row_weights(side, data.by(side).counts)
        self.h = model.h.numpy().copy()
        self.vectors: Floats = own.numpy().copy()
        self.missing: Floats = missing.astype(self.vectors.dtype)
        self.l2: Floats = l2.astype(self.vectors.dtype)
        self.squared_norms: Floats = np.square(self.h * self.vectors).sum(1)  # ‖h ⊙ y‖²
        self._outer = np.outer(self.h, self.h).astype(np.float64)
        weights = torch.from_numpy(self.missing).double()
        self.gram: NDArray[np.float64] = weighted_gram(own, weights, torch.float64).numpy() * self._outer

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def arrays(self) -> kernels.Factors:
        return kernels.Factors(self.vectors, self.missing)

    def sum_yy(self) -> NDArray[np.float64]:
        """Σ y yᵀ."""
        ones = torch.ones(len(self), dtype=torch.float64)
        moments: NDArray[np.float64] = weighted_gram(
            torch.from_numpy(self.vectors), ones, torch.float64
        ).numpy()
        return moments

    def unweighted_gram(self) -> NDArray[np.float64]:
        """Σ (h ⊙ y)(h ⊙ y)ᵀ."""
        return self._outer * self.sum_yy()

    def place(self, rows: NDArray[np.int64], vectors: Floats) -> None:
        """Turns some rows into `vectors`."""
        before = self.vectors[rows]
        # The change of Σ m y yᵀ, summed so that its rounding errors are of its own size.
        half = times((self.missing[rows, None] * (vectors - before)).T, (before + vectors) / 2)
        self.gram += self._outer * (half + half.T)
        self.vectors[rows] = vectors
        self.squared_norms[rows] = np.square(self.h * vectors).sum(1)

    def weigh(self, rows: NDArray[np.int64], missing: Floats, l2: Floats) -> None:
        """Gives some rows other weights."""
        change = missing.astype(self.missing.dtype) - self.missing[rows]
        if change.any():
            before = self.vectors[rows]
            self.gram += self._outer * times((change[:, None] * before).T, before)
            self.missing[rows] = missing
        self.l2[rows] = l2

    def grow(self, missing: Floats, l2: Floats) -> None:
        """Appends empty rows, at zero, with these weights."""
        kind, n = self.vectors.dtype, len(missing)
        self.vectors = appended(self.vectors, np.zeros((n, self.vectors.shape[1]), kind))
        self.missing = appended(self.missing, missing.astype(kind))
        self.l2 = appended(self.l2, l2.astype(kind))
        self.squared_norms = appended(self.squared_norms, np.zeros(n, kind))


def times(a: Floats, b: Floats) -> Floats:
    """a @ b in the precision of a, by torch: its threads sleep afterwards, numpy's spin and hold up the kernels."""
    b = b.astype(a.dtype, copy=False)
    if a.size * b.shape[1] < SMALL_PRODUCT:
        small: Floats = a @ b
        return small
    before = torch.get_num_threads()
    torch.set_num_threads(1 if a.size * b.shape[1] < MEDIUM_PRODUCT else min(n_threads(), before))
    try:
        return (torch.from_numpy(a) @ torch.from_numpy(b)).numpy()
    finally:
        torch.set_num_threads(before)
