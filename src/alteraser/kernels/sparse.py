"""How the sparse rows of a matrix are handed to kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class SparseRows(NamedTuple):
    """Row r holds `columns[starts[r]:stops[r]]`, ascending, and their weights; there may be room behind a row."""

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    columns: NDArray[np.int32]
    weights: NDArray[np.float32]
