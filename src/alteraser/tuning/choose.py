"""w0 and l2 for the data at hand: a line search around the rule, judged on a slice that is held out.

A model with the settings of the rule (`Objective.for_data`) is trained for a few passes. From there every candidate
goes on for as many passes with settings of its own, so that all have learned for as long. The search moves l2, then w0,
then l2 in a smaller step. While w0 moves, l2 keeps its share of the noise edge: good settings lie along that line.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions
from alteraser.errors import DataError
from alteraser.measure.baselines import MostPopular
from alteraser.models.kernel_warm_up import warm_up_for
from alteraser.models.mf import MF
from alteraser.models.objective import RULE, Objective, Rule, noise_edge_at, two_digits
from alteraser.optim.newton import cg_newton
from alteraser.sweep.sweep import Progress, Rows, Sweeper
from alteraser.tuning.validation import ValidationSlice, clearly_better

# What a step multiplies or divides l2 and w0 by, and how many steps a line takes at most in one direction.
L2_STEP, L2_STEPS = 2.0, 3
W0_STEP, W0_STEPS = 3.0, 2
FINE_L2_STEP = math.sqrt(L2_STEP)
MAX_CANDIDATES = 1 + (1 + L2_STEPS) + (1 + W0_STEPS) + 2
# So that all candidates together cost less than a training: passes by CG, few of them, and the users who are judged.
FIRST_PASSES, PASSES, JUDGED_USERS = 8, 6, 4_000
# Moves of w0 and fine ones of l2 must win by so many standard errors of the mean difference between two candidates:
# where chance may have decided, the rule is the better guide.
STANDARD_ERRORS = 0.5


@dataclass(frozen=True)
class Candidate:
    """Settings that were tried, and the NDCG@10 of a few passes with them on the slice that was held out."""

    w0: float
    l2: float
    ndcg: float


@dataclass(frozen=True)
class Choice:
    """The objective to train with, and the candidates it comes from: none where no user has enough to hold any out.

    `best` is the candidate that was taken; another may have a higher NDCG@10, but not by enough. `most_popular` is the
    NDCG@10 of recommending to everyone what most users have, on the same slice.
    """

    objective: Objective
    candidates: tuple[Candidate, ...] = ()
    best: Candidate | None = None
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
    """w0 and l2 for `data`, where they are not given, by the NDCG@10 on a slice that is held out.

    It takes half as long as training a model with `dim` dimensions to three times as long, the more the fewer passes
    training needs. If both are given, they are tried alone. `settings` are the other fields of `Objective`.
    """
    by_rule = Objective.for_data(data, w0=w0, l2=l2, rule=rule, **settings)
    try:
        part = ValidationSlice.of(data, max_users=JUDGED_USERS, rng=rng)
    except DataError:
        return Choice(by_rule)  # no user has enough to hold any out
    untrained = MF.sized_for(part.learn, dim=dim, objective=by_rule, rng=rng).without_empty_rows(part.learn)
    warm_up_for(untrained)
    search = _LineSearch(part, _passes(untrained, part.learn, FIRST_PASSES), settings, progress)
    best = search.candidate(by_rule.w0, by_rule.l2)
    if l2 is None:
        best = search.best_l2(best, L2_STEP, L2_STEPS)
    if w0 is None:
        best = search.best_w0(best, l2_follows=l2 is None)
    if l2 is None:
        best = search.best_l2(best, FINE_L2_STEP, 1, standard_errors=STANDARD_ERRORS)
    objective = Objective(w0=best.w0, l2=best.l2, **settings).scaled_to(data)
    return Choice(objective, search.candidates, best, part.ndcg(MostPopular.of(part.learn)))


@dataclass(eq=False)
class _LineSearch:
    """Candidates that all go on from the model `start`, and the NDCG@10 that each of the judged users has with them."""

    part: ValidationSlice
    start: MF
    settings: dict[str, float]
    progress: Progress | None
    ndcg_of_users: dict[Candidate, NDArray[np.float64]] = field(default_factory=dict)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        return tuple(self.ndcg_of_users)

    def best_l2(
        self, first: Candidate, step: float, n_steps: int, *, standard_errors: float = 0.0
    ) -> Candidate:
        def moved(at: Candidate, factor: float) -> Candidate:
            return self.candidate(at.w0, two_digits(factor * at.l2))

        return self._best_along(moved, first, step, n_steps, standard_errors)

    def best_w0(self, first: Candidate, *, l2_follows: bool) -> Candidate:
        """The best w0; if `l2_follows`, l2 keeps its share of the noise edge."""

        def moved(at: Candidate, factor: float) -> Candidate:
            w0 = two_digits(factor * at.w0)
            same_share = at.l2 * self._noise_edge(w0) / self._noise_edge(at.w0)
            return self.candidate(w0, two_digits(same_share) if l2_follows else at.l2)

        return self._best_along(moved, first, W0_STEP, W0_STEPS, STANDARD_ERRORS)

    def candidate(self, w0: float, l2: float) -> Candidate:
        objective = Objective(w0=w0, l2=l2, **self.settings).scaled_to(self.part.learn)
        model = _passes(replace(self.start, objective=objective), self.part.learn, PASSES)
        ndcg = self.part.ndcg_of_users(model)
        reached = Candidate(w0, l2, float(ndcg.mean()))
        self.ndcg_of_users[reached] = ndcg
        if self.progress is not None:
            self.progress(len(self.candidates), MAX_CANDIDATES, reached.ndcg)
        return reached

    def _best_along(
        self,
        moved: Callable[[Candidate, float], Candidate],
        first: Candidate,
        step: float,
        n_steps: int,
        standard_errors: float,
    ) -> Candidate:
        """The best on a line: upwards as long as it gets better or, if it does not at once, downwards."""
        best = first
        for factor in (step, 1 / step):
            for _ in range(n_steps):
                tried = moved(best, factor)
                if not self._beats(tried, best, standard_errors):
                    break
                best = tried
            if best is not first:
                break
        return best

    def _beats(self, tried: Candidate, best: Candidate, standard_errors: float) -> bool:
        return clearly_better(
            self.ndcg_of_users[tried], self.ndcg_of_users[best], standard_errors=standard_errors
        )

    def _noise_edge(self, w0: float) -> float:
        return noise_edge_at(w0, self.part.learn, **self.settings)


def _passes(model: MF, data: Interactions, n_passes: int) -> MF:
    sweeper, rows = Sweeper(cg_newton), Rows.occupied(data)
    for _ in range(n_passes):
        model = sweeper.sweep(model, data, rows)
    return model
