"""`Weighing`: how the weight of a pair comes of its events."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alteraser.errors import SettingError


@dataclass(frozen=True)
class Weighing:
    """w = offset + slope·r, r being what the events of a pair are merged to; without a column of weights 1 each.

    Other libraries weigh so: implicit with slope alpha, Spark with offset 1 and slope alpha.
    """

    offset: float = 0.0
    slope: float = 1.0

    def __post_init__(self) -> None:
        for name, value in (("weight_offset", self.offset), ("weight_slope", self.slope)):
            usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            if not usable or value < 0:
                raise SettingError(f"{name} is {value!r}; a number from 0 up is wanted.")

    def weights(self, merged: NDArray[Any]) -> NDArray[Any]:
        """The weights of pairs whose merged events have these values."""
        if self == PLAIN:
            return merged
        weights: NDArray[Any] = self.offset + self.slope * merged.astype(np.float64)
        return weights


PLAIN = Weighing()
