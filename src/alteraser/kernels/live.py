"""The arrays of a live model as kernels take them.

y is the vector of a row, m its weight in a missing entry, λ its penalty, x = h ⊙ y its scaled factors; a score is
y_r·x_c, which is x_r·y_c as well. An entry of weight w has the excess weight e = w − m_r m_c over a missing one, and
pulls its row by w − e·score along the other row's scaled factors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alteraser.kernels.arrays import Floats, Matrix


class Factors(NamedTuple):
    """The vectors of the rows of a side, and their weights in missing entries."""

    vectors: Matrix  # y, [n, d]
    missing: Floats  # m, [n]


class RowArrays(NamedTuple):
    """The rows of a side, with all that their residuals need but the entries and the other side."""

    h: Floats  # what each dimension weighs in a score, [d]
    vectors: Matrix  # y, [n, d]
    missing: Floats  # m, [n]
    l2: Floats  # λ, [n]
    kept: Matrix  # what a row is to keep of its residual, [n, d]


class SearchDirections(NamedTuple):
    """The search direction of some rows of a side: that of row r is values[positions[r]].

    Rows that are not among them have position -1; whether values[-1] is then a zero row is the kernel's to say.
    """

    positions: NDArray[np.int32]  # [n]
    values: Matrix  # [k, d]


class ChosenRows(NamedTuple):
    """The chosen rows of a side: vectors and search direction, scaled or not as the kernel says, and m."""

    vectors: Matrix  # [k, d]
    direction: Matrix  # [k, d]
    missing: Floats  # [k]
