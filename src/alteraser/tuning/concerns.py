"""Warnings about a model that was just trained: empty, over-regularised, no better than popularity."""

from __future__ import annotations

from typing import Any

import numpy as np

from alteraser.data.interactions import Interactions, Side
from alteraser.models.base import Factored
from alteraser.models.objective import RULE, two_digits
from alteraser.train.base import Training
from alteraser.tuning.choose import Choice

# With good settings models explain a tenth of the interactions and more and score a typical user's own at 0.12 and more
# on the data sets of `python -m studies defaults`; with settings that lose a third of the NDCG, at 0.08 and less.
MIN_EXPLAINED = 0.01  # below it a model is nearly empty
MIN_TYPICAL_SCORE = 0.05  # below it the penalty is too strong for a typical user
MIN_GAIN = 1.05  # of the NDCG over that of the most popular items


def concerns(training: Training[Any], data: Interactions, choice: Choice) -> list[str]:
    """Warnings about the model, each with what to do; none if all is well."""
    found = []
    model, by_user = training.model, data.by(Side.USERS)
    remedy = _remedy(training, data, choice)
    explained = 1 - model.loss(data) / float(by_user.weights.sum(dtype=np.float64))
    typical = _typical_score(model, data)
    if explained < MIN_EXPLAINED:
        found.append(
            f"The model is (nearly) empty: it explains {max(explained, 0):.1%} of the interactions. {remedy}"
        )
    elif typical < MIN_TYPICAL_SCORE:
        found.append(
            f"The penalty drowns a typical user: the model scores their own interactions at {typical:.3f}, where 1 is "
            f"wanted. {remedy}"
        )
    best = choice.best
    if best is not None and best.ndcg < MIN_GAIN * choice.most_popular:
        found.append(
            f"Its settings hardly beat the most popular items: after a few passes NDCG@10 on a slice held out is "
            f"{best.ndcg:.4f} against {choice.most_popular:.4f}. Search for better settings with `alteraser tune`. If "
            f"none are found, the data tells tastes hardly apart: give more of it, or leave out users and items with "
            f"few interactions (--min-interactions)."
        )
    return found


def _remedy(training: Training[Any], data: Interactions, choice: Choice) -> str:
    """What is to blame for a model that learned too little, and what to do."""
    if not training.converged:
        return f"The training was stopped after {len(training.losses)} passes, before it was done: raise --max-passes."
    edge, l2 = choice.objective.noise_edge(data), choice.objective.l2
    return (
        f"The penalty is too strong for this data: l2 is {l2:g}; with this w0 little but popularity is learned above "
        f"{two_digits(edge):g}. Leave out --l2 and --w0 to have them chosen, or try --l2 "
        f"{two_digits(RULE.tightness * edge):g}."
    )


def _typical_score(model: Factored, data: Interactions) -> float:
    """The median over users of the mean score of their own interactions."""
    by_user = data.by(Side.USERS)
    scores = model.pair_scores(by_user.owners(), by_user.columns).numpy().astype(np.float64)
    sums = np.bincount(by_user.owners(), scores, minlength=len(by_user))
    return float(np.median(sums[by_user.occupied] / by_user.counts[by_user.occupied]))
