"""How far a live model really is from the optimum of its data: what its own estimate of drift is held against."""

from __future__ import annotations

import numpy as np

from alteraser.data.interactions import Side
from alteraser.live.model import LiveModel
from alteraser.models.mf import MF
from alteraser.train.named import TO_THE_OPTIMUM
from benchmarks.formula import Formula, Pairs
from benchmarks.kinds.reference import in_double


def true_gap(live: LiveModel[MF]) -> float:
    """How much lower the loss could be: the optimum next to the model, in double precision, by formula."""
    remain, model = live.remain, live.model
    lowest = TO_THE_OPTIMUM.train(in_double(model), remain, rng=None).model
    by_user = remain.by(Side.USERS)  # events of a pair merged
    pairs = Pairs(
        by_user.owners().astype(np.int64),
        by_user.columns.astype(np.int64),
        by_user.weights.astype(np.float64),
    )
    return Formula(model, pairs).loss - Formula(lowest, pairs).loss
