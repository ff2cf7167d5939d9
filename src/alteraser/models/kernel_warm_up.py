"""Which kernels a model needs: those for the precision of its tables."""

from __future__ import annotations

from alteraser.kernels.warm_up import PRECISIONS, warm_up
from alteraser.models.base import Factored, Quadratic


def warm_up_for(model: Factored) -> None:
    """Has the kernels that a model needs compiled and loaded: to be called before a clock starts."""
    precision = str(model.table(model.sides[0]).dtype).removeprefix("torch.")
    if isinstance(model, Quadratic) and precision in PRECISIONS:
        warm_up(precision)
