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
    """All that a move of rows changes in them but their pending residual."""

    vectors: Matrix  # y, [n, d]
    missing: Floats  # m, [n]
    l2: Floats  # λ, [n]
    squared_norms: Floats  # ‖h ⊙ y‖², [n]
    deferred: Matrix  # the residual that earlier requests left, [n, d]


class Slots(NamedTuple):
    """The pending residual of those rows that have any: that of row r is values[slots[r]], unless slots[r] is -1."""

    slots: NDArray[np.int32]  # [n]
    values: Matrix  # [n, d], of which the first are used


class Moves(NamedTuple):
    """Rows that move: their scaled factors h ⊙ y before, how these change, and their m before and after."""

    scaled: Matrix  # [k, d]
    change: Matrix  # [k, d]
    missing_before: Floats  # [k]
    missing_after: Floats  # [k]


class Targets(NamedTuple):
    """What rows become."""

    vectors: Matrix  # [k, d]
    missing: Floats  # [k]
    l2: Floats  # [k]


class Grams(NamedTuple):
    """What a side's rows need of the other side as a whole: Ĝ = Σ_c m_c x_c x_cᵀ and how it has changed."""

    h: Floats  # [d]
    gram: Matrix  # Ĝ, [d, d]
    deferred_correction: (
        Matrix  # the change of Ĝ from the writing of deferred residuals to the present request
    )
    pending_correction: Matrix  # the change of Ĝ since the present request came


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
