"""How far a live model really is from the optimum of its data: what its own estimate of drift is held against.

The losses are computed by a formula that shares no code with the package. The optimum is found by the package, and the
gradient by the formula tells whether it is one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from alteraser.data.interactions import Side
from alteraser.live.model import LiveModel
from alteraser.models.mf import MF
from alteraser.train.named import TO_THE_OPTIMUM
from benchmarks.formula import Formula, Pairs
from benchmarks.kinds.reference import in_double

LOWEST = replace(TO_THE_OPTIMUM, tolerance=1e-12)
"""Goes on where training ends: near an optimum a pass may lower the loss by a billionth and leave most of the gap."""
GRADIENT_LEFT = 0.1
"""How much of the model's gradient there may be at what is called the optimum: the gap goes with its square."""


def true_gap(live: LiveModel[MF]) -> float:
    """How much lower the loss could be: the optimum next to the model, in double precision."""
    remain, model = live.remain, live.model
    lowest = LOWEST.train(in_double(model), remain, rng=None).model
    by_user = remain.by(Side.USERS)  # events of a pair merged
    pairs = Pairs(
        by_user.owners().astype(np.int64),
        by_user.columns.astype(np.int64),
        by_user.weights.astype(np.float64),
    )
    return gap(Formula(model, pairs), Formula(lowest, pairs))


def gap(model: Formula, lowest: Formula) -> float:
    """The difference of the losses; an error where the second is no optimum beside the first."""
    left = lowest.gradient_norm / model.gradient_norm
    if not left <= GRADIENT_LEFT:
        raise ArithmeticError(
            f"What was found as the optimum has {left:.2g} of the model's gradient; a gap over it would be too small."
        )
    return model.loss - lowest.loss
