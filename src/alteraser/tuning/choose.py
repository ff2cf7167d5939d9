"""w0 and l2 for the data at hand: a quick look at a slice that is held out.

Each setting that is tried trains a smaller model for a few passes. The settings are those around the rule
(`Objective.for_data`): first l2, looser and tighter, then w0, with an l2 that follows the noise edge. All trials start
alike and make as many passes: on some data lists get worse with every pass, and one that went on would lose by that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from alteraser.data.interactions import Interactions
from alteraser.errors import DataError
from alteraser.measure.baselines import MostPopular
from alteraser.models.kernel_use import warm_up_for
from alteraser.models.mf import MF
from alteraser.models.objective import RULE, Objective, Rule, noise_edge_at, two_digits
from alteraser.optim.newton import ah_newton
from alteraser.sweep.sweep import Progress, Rows, Sweeper
from alteraser.tuning.validation import ValidationSlice

# What the rule's l2 is multiplied by, from loose to tight, and what its w0 is moved by, and how often. Together they
# span what was best on the data sets of `python -m studies defaults`.
LOOSEST, LOOSE, TIGHT, TIGHTEST = 1 / 3, 2 / 3, 4 / 3, 8 / 3
W0_STEP, W0_STEPS = 3.0, 2
MAX_TRIALS = 3 + W0_STEPS + 1
# A tight penalty is done in fewer passes and looks too good after a few: the tightest must win by this factor.
MARGIN = 1.03
# So that all trials together cost about as much as a training: the dimensions as a share of the model's, the passes,
# and the users whose lists are judged.
DIM_SHARE, PASSES, JUDGED_USERS = 0.5, 6, 4_000


@dataclass(frozen=True)
class Trial:
    """Settings that were tried, and the NDCG@10 of a small model with them on the slice that was held out."""

    w0: float
    l2: float
    ndcg: float


@dataclass(frozen=True)
class Choice:
    """The objective to train with, and the trials it comes from: none where no user has enough to hold any out.

    `chosen` is one of the trials, not always that with the highest NDCG@10: the tightest penalty must win by a margin.
    `most_popular` is the NDCG@10 of recommending to everyone what most users have, on the same slice.
    """

    objective: Objective
    trials: tuple[Trial, ...] = ()
    chosen: Trial | None = None
    most_popular: float = math.nan


def choose_objective(
    data: Interactions,
    *,
    dim: int,
    rng: np.random.Generator,
    w0: float | None = None,
    l2: float | None = None,
    rule: Rule = RULE,
    progress: Progress | None = None,
    **settings: float,
) -> Choice:
    """w0 and l2 for `data`, where they are not given, by the NDCG@10 of small models on a slice that is held out.

    It takes about as long as training a model with `dim` dimensions, less on large data. If both are given, they are
    tried alone. `settings` are the other fields of `Objective`.
    """
    usual = Objective.for_data(data, w0=w0, l2=l2, rule=rule, **settings)
    try:
        part = ValidationSlice.of(data, max_users=JUDGED_USERS, rng=rng)
    except DataError:
        return Choice(usual)  # no user has enough to hold any out
    start = MF.sized_for(part.learn, dim=max(1, round(DIM_SHARE * dim)), objective=usual, rng=rng)
    warm_up_for(start)
    look = _Look(part, start.without_empty_rows(part.learn), rule, settings, progress)
    chosen = look.best_around(usual.w0, w0=w0, l2=l2)
    objective = Objective(w0=chosen.w0, l2=chosen.l2, **settings).scaled_to(data)
    return Choice(objective, tuple(look.trials), chosen, part.ndcg(MostPopular.of(part.learn)))


@dataclass(eq=False)
class _Look:
    """What the trials share: the slice, the model they start from, and what was tried."""

    part: ValidationSlice
    start: MF
    rule: Rule
    settings: dict[str, float]
    progress: Progress | None

    def __post_init__(self) -> None:
        self.trials: list[Trial] = []

    def best_around(self, usual_w0: float, *, w0: float | None, l2: float | None) -> Trial:
        """The best of the trials around the rule; what is given stays."""
        if l2 is not None:
            first = self._try(usual_w0, l2)
            return first if w0 is not None else self._best_w0(first, lambda _: l2)
        best = self._best_l2(usual_w0)
        if w0 is not None:
            return best
        share = best.l2 / self._edge(usual_w0)
        return self._best_w0(best, lambda w0: two_digits(share * self._edge(w0)))

    def _best_l2(self, w0: float) -> Trial:
        """The best of three, from loose to tight; the tightest only if it wins by the margin."""
        usual = self.rule.tightness * self._edge(w0)
        loose, tight = (self._try(w0, two_digits(factor * usual)) for factor in (LOOSE, TIGHT))
        if tight.ndcg < loose.ndcg:
            return max(loose, self._try(w0, two_digits(LOOSEST * usual)), key=_ndcg)
        tightest = self._try(w0, two_digits(TIGHTEST * usual))
        return tightest if tightest.ndcg > MARGIN * tight.ndcg else tight

    def _best_w0(self, first: Trial, l2_of: Callable[[float], float]) -> Trial:
        """The best of the first trial and what comes of going on downwards or, if that is worse, upwards."""
        best = first
        for factor in (1 / W0_STEP, W0_STEP):
            for _ in range(W0_STEPS):
                w0 = two_digits(best.w0 * factor)
                tried = self._try(w0, l2_of(w0))
                if tried.ndcg <= best.ndcg:
                    break
                best = tried
            if best is not first:
                break
        return best

    def _edge(self, w0: float) -> float:
        return noise_edge_at(w0, self.part.learn, **self.settings)

    def _try(self, w0: float, l2: float) -> Trial:
        learn = self.part.learn
        objective = Objective(w0=w0, l2=l2, **self.settings).scaled_to(learn)
        model = replace(self.start, objective=objective)
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
