"""Objectives, precisions and deletions that the tests of live models share."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from alteraser import Interactions, Objective
from alteraser.data.changes import Change

PLAIN = Objective(w0=0.3, l2=0.2, l2_scaling=0.5)
WEIGHED = Objective(
    w0=0.7,
    l2=0.2,
    l2_scaling=1.0,
    user_activity=0.4,
    item_popularity=1.3,
    mean_user_count=3.0,
    mean_item_count=4.0,
)
both_precisions = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
every_kind = pytest.mark.parametrize("enmf", [False, True], ids=["mf", "enmf"])
every_objective = pytest.mark.parametrize("objective", [PLAIN, WEIGHED], ids=["plain", "weighed"])


def deletion(data: Interactions, mask: NDArray[np.bool_]) -> Change:
    """The change when the pairs of some events go."""
    return Change.of_deletion(data, data.only(mask), data.without(mask))
