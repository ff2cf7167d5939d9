"""w0 and l2 for the data at hand: a quick look at a slice that is held out.

Each setting that is tried trains a smaller model for a few passes. The settings are those of the rule
(`Objective.for_data`) and their neighbours: first l2 from loose to tight around the noise edge, then w0, whose best l2
follows the edge, then l2 once more in smaller steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from alteraser.data.interactions import Interactions
from alteraser.errors import DataError
from alteraser.measure.baselines import MostPopular
from alteraser.models.mf import MF
from alteraser.models.objective import Objective, two_digits
from alteraser.optim.newton import ah_newton
from alteraser.sweep.sweep import Progress, Rows, Sweeper
from alteraser.tuning.validation import ValidationSlice

# l2 as a share of the noise edge, from loose to tight, and the factor w0 is moved by: see `python -m studies defaults`.
TIGHTNESS = (0.1, 0.2, 0.4, 0.8)
W0_STEP = 3.0
FINER = 2**0.5
# A trial: the dimensions as a share of the model's, and the passes. All trials together cost less than a training.
DIM_SHARE, PASSES = 0.5, 6
MAX_TRIALS = 8


@dataclass(frozen=True)
class Trial:
    """Settings that were tried, and the NDCG@10 of a small model with them on the slice that was held out."""

    w0: float
    l2: float
    ndcg: float


@dataclass(frozen=True)
class Choice:
    """The objective to train with, and the trials it comes from: none where no user has enough to hold any out.

    `most_popular` is the NDCG@10 of recommending to everyone what most users have, on the same slice.
    """

    objective: Objective
    trials: tuple[Trial, ...] = ()
    most_popular: float = math.nan

    @property
    def best(self) -> Trial | None:
        return max(self.trials, key=_ndcg, default=None)


def choose_objective(
    data: Interactions,
    *,
    dim: int,
    rng: np.random.Generator,
    w0: float | None = None,
    l2: float | None = None,
    progress: Progress | None = None,
    **settings: float,
) -> Choice:
    """w0 and l2 for `data`, where they are not given, by the NDCG@10 of small models on a slice that is held out.

    It costs less than training a model with `dim` dimensions. If both are given, they are tried alone. `settings` are
    the other fields of `Objective`.
    """
    usual = Objective.for_data(data, w0=w0, l2=l2, **settings)
    try:
        part = ValidationSlice.of(data, rng=rng)
    except DataError:
        return Choice(usual)  # no user has enough to hold any out
    seed = int(rng.integers(2**63))
    look = _Look(part, max(1, round(DIM_SHARE * dim)), seed, settings, progress)
    best = look.best_around(usual.w0, w0=w0, l2=l2)
    chosen = Objective(w0=best.w0, l2=best.l2, **settings).scaled_to(data)
    return Choice(chosen, tuple(look.trials), part.ndcg(MostPopular.of(part.learn)))


@dataclass(eq=False)
class _Look:
    """What the trials share: the slice, the size of models, where they start, and what was tried."""

    part: ValidationSlice
    dim: int
    seed: int
    settings: dict[str, float]
    progress: Progress | None

    def __post_init__(self) -> None:
        self.trials: list[Trial] = []

    def best_around(self, usual_w0: float, *, w0: float | None, l2: float | None) -> Trial:
        """The best of the trials around the rule; what is given stays."""
        if l2 is not None:
            start = self._try(usual_w0, l2)
            return start if w0 is not None else self._best_w0(start, lambda _: l2)
        best = max((self._tight(usual_w0, share) for share in TIGHTNESS), key=_ndcg)
        share = best.l2 / self._edge(usual_w0)
        if w0 is None:
            best = self._best_w0(best, lambda w0: two_digits(share * self._edge(w0)))
        finer = [self._try(best.w0, two_digits(best.l2 * factor)) for factor in (1 / FINER, FINER)]
        return max(best, *finer, key=_ndcg)

    def _best_w0(self, start: Trial, l2_of: Callable[[float], float]) -> Trial:
        """The best of the start and what comes of going on downwards or, if that is worse, upwards."""
        best = start
        for factor in (1 / W0_STEP, W0_STEP):
            while (tried := self._moved(best.w0 * factor, l2_of)).ndcg > best.ndcg:
                best = tried
            if best is not start:
                break
        return best

    def _moved(self, w0: float, l2_of: Callable[[float], float]) -> Trial:
        return self._try(two_digits(w0), l2_of(two_digits(w0)))

    def _tight(self, w0: float, share: float) -> Trial:
        return self._try(w0, two_digits(share * self._edge(w0)))

    def _edge(self, w0: float) -> float:
        learn = self.part.learn
        return Objective(w0=w0, l2=1.0, **self.settings).scaled_to(learn).noise_edge(learn)

    def _try(self, w0: float, l2: float) -> Trial:
        learn = self.part.learn
        objective, rng = Objective(w0=w0, l2=l2, **self.settings), np.random.default_rng(self.seed)
        model = MF.sized_for(learn, dim=self.dim, objective=objective, rng=rng).without_empty_rows(learn)
        sweeper, rows = Sweeper(ah_newton), Rows.occupied(learn)
        for _ in range(PASSES):
            model = sweeper.sweep(model, learn, rows)
        trial = Trial(w0, l2, self.part.ndcg(model))
        self.trials.append(trial)
        if self.progress is not None:
            self.progress(len(self.trials), MAX_TRIALS, trial.ndcg)
        return trial


def _ndcg(trial: Trial) -> float:
    return trial.ndcg
