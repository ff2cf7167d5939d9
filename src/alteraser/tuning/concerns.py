"""What speaks against a model that was just trained: empty, drowned by its penalty, no better than popularity."""

from __future__ import annotations

import numpy as np

from alteraser.data.interactions import Interactions, Side
from alteraser.models.base import Factored
from alteraser.models.objective import RULE, two_digits
from alteraser.tuning.choose import Choice

# With good settings models explain a tenth of the interactions and more and score a typical user's own at 0.12 and more
# on the data sets of `python -m studies defaults`; with settings that lose a third of the NDCG, at 0.08 and less.
NEARLY_EMPTY = 0.01
DROWNED = 0.05
HARDLY_BETTER = 1.05


def concerns(model: Factored, data: Interactions, choice: Choice) -> list[str]:
    """What a user should know of the model, and what to do; nothing if all is well."""
    found = []
    objective, by_user = choice.objective, data.by(Side.USERS)
    edge = objective.noise_edge(data)
    remedy = (
        f"The penalty is too strong for this data: l2 is {objective.l2:g}; with this w0 little but popularity is "
        f"learned above {two_digits(edge):g}. Leave out --l2 and --w0 to have them chosen, or try --l2 "
        f"{two_digits(RULE.tightness * edge):g}."
    )
    explained = 1 - model.loss(data) / float(by_user.weights.sum(dtype=np.float64))
    typical = _typical_score(model, data)
    if explained < NEARLY_EMPTY:
        found.append(
            f"The model is (nearly) empty: it explains {max(explained, 0):.1%} of the interactions. {remedy}"
        )
    elif typical < DROWNED:
        found.append(
            f"The penalty drowns a typical user: the model scores their own interactions at {typical:.3f}, where 1 is "
            f"wanted. {remedy}"
        )
    if choice.chosen is not None and choice.chosen.ndcg < HARDLY_BETTER * choice.most_popular:
        found.append(
            f"Its lists hardly beat the most popular items: NDCG@10 on a slice held out is {choice.chosen.ndcg:.4f} "
            f"against {choice.most_popular:.4f}. Search for better settings with `alteraser tune`. If none are found, "
            f"the data tells tastes hardly apart: give more of it, or leave out users and items with few interactions "
            f"(--min-interactions)."
        )
    return found


def _typical_score(model: Factored, data: Interactions) -> float:
    """The median over users of the mean score of their own interactions."""
    by_user = data.by(Side.USERS)
    scores = model.pair_scores(by_user.owners(), by_user.columns).numpy().astype(np.float64)
    sums = np.bincount(by_user.owners(), scores, minlength=len(by_user))
    return float(np.median(sums[by_user.occupied] / by_user.counts[by_user.occupied]))
