"""The methods of the paper's evaluation, and ours beside them, by the names its tables use.

Every unlearner that a study runs is made in this file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from alteraser.live.scopes import AllRows, AutoRows, ForgettingRows, Passes, Scope
from alteraser.optim.solvers import SOLVERS
from alteraser.sweep.accelerate import Anderson
from alteraser.sweep.joint import JointNewton
from alteraser.train.als import ALS
from alteraser.unlearn.alteraser import AltEraser
from alteraser.unlearn.base import Unlearner
from alteraser.unlearn.retrain import Retrain, WarmStart
from studies import retrainings
from studies.settings import Regime, Settings

ORIGINAL, RETRAIN, RETRAIN_STAR, WARM_START = "Original", "Retrain", "Retrain*", "Warm-Start"
RETRAIN_INDEPENDENT = "Retrain (independent)"
RETRAIN_ALS = "Retrain [ALS]"
SAME_LOSS_PASSES, SAME_LOSS_NEWTON, SAME_LOSS_CG = (
    f"Retrain [{how}, to the loss of AltEraser]" for how in retrainings.TRAINERS
)
AH_NEWTON, HF_NEWTON = "AltEraser [AH-Newton]", "AltEraser [HF-Newton]"
ADAMW = "AltEraser [AdamW]"
AH_PLAIN, AH_ANDERSON = "AltEraser [AH-Newton, plain passes]", "AltEraser [AH-Newton, Anderson]"
AH_FORGETTING, AH_NO_GAP = (
    "AltEraser [AH-Newton, forgetting pass only]",
    "AltEraser [AH-Newton, training gap 0]",
)
DEFAULT = "AltEraser [default]"
OF_DEFAULT = {f"Retrain [{how}, to the loss of AltEraser by default]": how for how in retrainings.TRAINERS}
SHARED_WEIGHTS, SHARED_SEED = (
    f"AltEraser [default, original from Retrain's {shared}]" for shared in ("initial weights", "seed")
)

Randomness = Callable[[str], np.random.Generator]
"""A generator for each purpose, so that what one method draws does not depend on which others run."""
Losses = Mapping[str, float]
"""What the methods before this one reached on the remaining data."""
Build = Callable[[Settings, Regime, Randomness, Losses], Unlearner]


@dataclass(frozen=True)
class Start:
    """Where the training of an original starts: the purposes that its initial weights and its order are drawn for.

    Without a purpose of its own the order comes from the generator that drew the weights, as in `Retrain`.
    """

    weights: str
    order: str | None


OWN_START = Start("original", "original order")
"""Shared with no retraining."""


@dataclass(frozen=True)
class Method:
    """How to build the unlearner; in which regimes it belongs; which original it is given."""

    build: Build
    regimes: tuple[Regime, ...] = ("paper", "converged")
    start: Start = OWN_START


def _retrain(settings: Settings, regime: Regime, randomness: Randomness, losses: Losses) -> Unlearner:
    del losses
    return Retrain(randomness("retrain"), settings.trainer(regime))


def _retrain_star(settings: Settings, regime: Regime, randomness: Randomness, losses: Losses) -> Unlearner:
    """In the paper's regime Retrain's initial weights with another order of batches; ALS has no such order, so
    there it is another initialisation."""
    del losses
    if regime == "converged":
        return Retrain(randomness("retrain-star"), settings.trainer(regime))
    return Retrain(randomness("retrain"), settings.trainer(regime), order=randomness("retrain-star"))


def _retrain_independent(
    settings: Settings, regime: Regime, randomness: Randomness, losses: Losses
) -> Unlearner:
    """Nothing shared with Retrain: neither initial weights nor the order of batches."""
    del losses
    return Retrain(randomness("retrain-independent"), settings.trainer(regime))


def _retrain_als(settings: Settings, regime: Regime, randomness: Randomness, losses: Losses) -> Unlearner:
    """Not the paper's: how long retraining takes with the same kernels as AltEraser."""
    del settings, regime, losses
    return Retrain(randomness("retrain"), ALS())


def _retrain_to_same_loss(how: str, ours: str) -> Method:
    """Retraining that ends as soon as its loss is that of an AltEraser, so that their times compare."""

    def build(settings: Settings, regime: Regime, randomness: Randomness, losses: Losses) -> Unlearner:
        del settings, regime
        trainer = retrainings.to_loss(retrainings.TRAINERS[how], losses.get(ours, -math.inf))
        return retrainings.RetrainRows(randomness("retrain"), trainer)

    return Method(build)


def _warm_start(settings: Settings, regime: Regime, randomness: Randomness, losses: Losses) -> Unlearner:
    del losses
    return WarmStart(randomness("warm-start"), settings.trainer(regime))


def _erase(scope: Scope) -> Build:
    return lambda *_: AltEraser(scope)


METHODS: dict[str, Method] = {
    RETRAIN: Method(_retrain),
    RETRAIN_STAR: Method(_retrain_star),
    RETRAIN_INDEPENDENT: Method(_retrain_independent, ("paper",)),
    RETRAIN_ALS: Method(_retrain_als, ("paper",)),
    WARM_START: Method(_warm_start, ("paper",)),
    ADAMW: Method(_erase(Passes(SOLVERS["adamw"])), ("paper",)),
    HF_NEWTON: Method(_erase(Passes(SOLVERS["hf-newton"]))),
    AH_NEWTON: Method(_erase(AllRows())),
    AH_NO_GAP: Method(_erase(AllRows(training_gap=0.0)), ("paper",)),
    AH_ANDERSON: Method(_erase(Passes()), ("converged",)),
    AH_PLAIN: Method(_erase(Passes(acceleration=None))),
    AH_FORGETTING: Method(_erase(ForgettingRows())),
    DEFAULT: Method(_erase(AutoRows())),
    SHARED_WEIGHTS: Method(_erase(AutoRows()), ("paper",), Start("retrain", "original order")),
    SHARED_SEED: Method(_erase(AutoRows()), ("paper",), Start("retrain", None)),
    SAME_LOSS_PASSES: _retrain_to_same_loss(retrainings.PASSES, AH_NEWTON),
    SAME_LOSS_NEWTON: _retrain_to_same_loss(retrainings.NEWTON, AH_NEWTON),
    SAME_LOSS_CG: _retrain_to_same_loss(retrainings.CG, AH_NEWTON),
    **{name: _retrain_to_same_loss(how, DEFAULT) for name, how in OF_DEFAULT.items()},
}
HEADLINE = (
    RETRAIN_STAR,
    RETRAIN_INDEPENDENT,
    WARM_START,
    AH_NEWTON,
    AH_PLAIN,
    AH_FORGETTING,
    DEFAULT,
    SHARED_WEIGHTS,
    SHARED_SEED,
    *OF_DEFAULT,
)
"""The methods that the page of results opens with, and those that explain their figures."""
SAME_LOSS = {
    SAME_LOSS_PASSES: "speed_up_same_loss_passes",
    SAME_LOSS_NEWTON: "speed_up_same_loss_newton",
    SAME_LOSS_CG: "speed_up_same_loss_cg",
}
"""The retrainings that end at the loss of AltEraser [AH-Newton], and the name of the ratio of their times."""
TO_LOSS_OF = {AH_NEWTON: tuple(SAME_LOSS), DEFAULT: tuple(OF_DEFAULT)}
"""The retrainings that were made for the loss of a method."""
RETRAININGS = (RETRAIN, RETRAIN_STAR, RETRAIN_INDEPENDENT, RETRAIN_ALS, *SAME_LOSS, *OF_DEFAULT)
"""All that train anew: the fastest of those that reach the loss of a method is its rival."""


def retrain(randomness: Randomness, purpose: str, trainer: ALS) -> Unlearner:
    """Retraining by ALS, from weights drawn for a purpose."""
    return Retrain(randomness(purpose), trainer)


def erase_by(solver: str) -> Unlearner:
    """AltEraser with a solver and, as not every solver can do more, Anderson's passes."""
    return AltEraser(Passes(SOLVERS[solver]))


def erase_with_shared() -> Unlearner:
    """AltEraser that also solves for the shared parameters."""
    return AltEraser(Passes(acceleration=None, solve_shared=True))


def erase_by_plain_passes() -> Unlearner:
    """AltEraser as in the paper, without acceleration."""
    return AltEraser(Passes(acceleration=None))


def erase_to_the_end(acceleration: Anderson | JointNewton | None) -> Unlearner:
    """AltEraser that goes on to the optimum, however far from its own the original was."""
    if isinstance(acceleration, JointNewton):
        return AltEraser(AllRows(tolerance=1e-9, max_steps=60, training_gap=0.0))
    return AltEraser(Passes(tolerance=1e-9, max_passes=60, training_gap=0.0, acceleration=acceleration))


def methods_of(regime: Regime) -> tuple[str, ...]:
    """The methods that belong to a regime, Original first."""
    return (ORIGINAL, *(name for name, method in METHODS.items() if regime in method.regimes))
