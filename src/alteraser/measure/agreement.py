"""How alike two models are where it matters: their lists, and their scores of what was forgotten."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from alteraser.data.changes import Change
from alteraser.data.interactions import Interactions
from alteraser.errors import SettingError
from alteraser.measure.ranking import Lists
from alteraser.models.base import Recommender


def rbo(first: Lists, second: Lists, k: int, *, p: float = 0.9) -> NDArray[np.float64]:
    """Rank-biased overlap of the first k of each pair of lists, over its maximum, so that identical lists give 1.

    Σ_{i≤k} p^(i−1) · overlap_i / i  divided by  Σ_{i≤k} p^(i−1), where overlap_i counts the items both lists hold
    among their first i. Lists hold no item twice; -1 (nothing more to recommend) is never shared, and where both
    lists end before k, k is where the longer one ends.
    """
    share, weight, ends = _shares(first, second, k, p)
    overlap: NDArray[np.float64] = (share * weight).sum(1) / weight.sum(1)
    return np.where(ends > 0, overlap, 1.0)


def rbo_extrapolated(first: Lists, second: Lists, k: int, *, p: float = 0.9) -> NDArray[np.float64]:
    """Webber's RBO_ext: what the infinite lists would share if they went on agreeing as at depth k."""
    share, weight, ends = _shares(first, second, k, p)
    last = share[np.arange(len(share)), np.maximum(ends, 1) - 1]
    overlap: NDArray[np.float64] = (1 - p) * (share * weight).sum(1) + last * p**ends
    return np.where(ends > 0, overlap, 1.0)


def _shares(
    first: Lists, second: Lists, k: int, p: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Of each pair of lists the shared part of the first i for i = 1 … k, its weight, and where the longer one ends.

    The weight is p^(i−1), and 0 below that end (but for two empty lists, which have no other depth).
    """
    if not 0 < p < 1:
        raise SettingError(f"p is {p}; a number between 0 and 1 is wanted.")
    if k < 1 or first.shape[1] < k or second.shape[1] < k:
        raise SettingError(
            f"k is {k}, the lists hold {first.shape[1]} and {second.shape[1]}; at least k are wanted."
        )
    a, b = first[:, :k], second[:, :k]
    place = np.arange(k)
    both = np.concatenate([a, b], axis=1)
    order = np.argsort(both, axis=1, kind="stable")
    both = np.take_along_axis(both, order, axis=1)
    user, at = np.nonzero((both[:, 1:] == both[:, :-1]) & (both[:, 1:] >= 0))
    # A shared item stands twice in a row; it counts from the depth at which both lists have shown it.
    depth = np.maximum(order[user, at], order[user, at + 1] - k)
    shown_at = np.bincount(user * k + depth, minlength=len(a) * k).reshape(len(a), k)
    share = shown_at.cumsum(1) / (place + 1)
    ends = np.maximum((a >= 0).sum(1), (b >= 0).sum(1))
    weight = np.where(place < np.maximum(ends, 1)[:, None], p ** place.astype(np.float64), 0.0)
    return share, weight, ends


def re_predict(model: Recommender, forget: Interactions | Change) -> float:
    """The mean score of the forgotten pairs: high while the model remembers them. Each pair counts once."""
    pairs = np.unique(np.stack([forget.users, forget.items]), axis=1)
    return float(model.pair_scores(pairs[0], pairs[1]).double().mean())
