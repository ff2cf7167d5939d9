"""The methods of the paper's evaluation, and ours beside them, by the names its tables use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from alteraser.experiments.settings import Regime, Settings
from alteraser.optim.solvers import SOLVERS
from alteraser.train.als import ALS
from alteraser.unlearn.alteraser import AltEraser
from alteraser.unlearn.base import Unlearner
from alteraser.unlearn.retrain import Retrain, WarmStart

ORIGINAL, RETRAIN, RETRAIN_STAR, WARM_START = "Original", "Retrain", "Retrain*", "Warm-Start"
RETRAIN_ALS = "Retrain [ALS]"
AH_NEWTON, HF_NEWTON = "AltEraser [AH-Newton]", "AltEraser [HF-Newton]"
ADAMW = "AltEraser [AdamW]"
AH_PLAIN, AH_FORGETTING = "AltEraser [AH-Newton, plain passes]", "AltEraser [AH-Newton, forgetting pass only]"

Randomness = Callable[[str], np.random.Generator]
"""A generator for each purpose, so that what one method draws does not depend on which others run."""


@dataclass(frozen=True)
class Method:
    """How to build the unlearner; in which regimes it belongs."""

    build: Callable[[Settings, Regime, Randomness], Unlearner]
    regimes: tuple[Regime, ...] = ("paper", "converged")


def _retrain(settings: Settings, regime: Regime, randomness: Randomness) -> Unlearner:
    return Retrain(randomness("retrain"), settings.trainer(regime))


def _retrain_star(settings: Settings, regime: Regime, randomness: Randomness) -> Unlearner:
    """In the paper's regime Retrain's initial weights with another order of batches; ALS has no such order, so
    there it is another initialisation."""
    if regime == "converged":
        return Retrain(randomness("retrain-star"), settings.trainer(regime))
    return Retrain(randomness("retrain"), settings.trainer(regime), order=randomness("retrain-star"))


def _retrain_als(settings: Settings, regime: Regime, randomness: Randomness) -> Unlearner:
    """Not the paper's: how long retraining takes with the same kernels and acceleration as AltEraser."""
    del settings, regime
    return Retrain(randomness("retrain"), ALS())


def _warm_start(settings: Settings, regime: Regime, randomness: Randomness) -> Unlearner:
    return WarmStart(randomness("warm-start"), settings.trainer(regime))


def _erase(solver: str, **changes: object) -> Callable[[Settings, Regime, Randomness], Unlearner]:
    return lambda *_: replace(AltEraser(solver=SOLVERS[solver]), **changes)  # type: ignore[arg-type]


METHODS: dict[str, Method] = {
    RETRAIN: Method(_retrain),
    RETRAIN_STAR: Method(_retrain_star),
    RETRAIN_ALS: Method(_retrain_als, ("paper",)),
    WARM_START: Method(_warm_start, ("paper",)),
    ADAMW: Method(_erase("adamw"), ("paper",)),
    HF_NEWTON: Method(_erase("hf-newton")),
    AH_NEWTON: Method(_erase("ah-newton")),
    AH_PLAIN: Method(_erase("ah-newton", acceleration=None)),
    AH_FORGETTING: Method(_erase("ah-newton", max_passes=0)),
}


def methods_of(regime: Regime) -> tuple[str, ...]:
    """The methods that belong to a regime, Original first."""
    return (ORIGINAL, *(name for name, method in METHODS.items() if regime in method.regimes))
