"""What the arrays of a kernel hold, as annotations: kernels are compiled ahead for just these types (`warm_up.py`).

An array that Python passes to a kernel is C-contiguous and has one dimension unless its annotation says otherwise;
`Any` stands for the precision of a call, float32 or float64, which is the same in all of its arguments.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Dimensions(NamedTuple):
    """How many dimensions an array has."""

    number: int


Floats = NDArray[Any]
Matrix = Annotated[NDArray[Any], Dimensions(2)]
Stack = Annotated[NDArray[Any], Dimensions(3)]
Doubles = NDArray[np.float64]
DoubleMatrix = Annotated[NDArray[np.float64], Dimensions(2)]
