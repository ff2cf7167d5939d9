"""Top-k lists and how good they are. Measures are plain functions of lists and relevant items, one value per user."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alteraser.data.csr import CSR
from alteraser.models.base import Recommender

Lists = NDArray[np.int64]  # [n_users, k], best first; -1 where there is nothing more to recommend
BLOCK_SCORES = 2**24  # scores held at a time
Hits = NDArray[np.bool_]  # [n_users, k]


def top_k(
    model: Recommender,
    users: NDArray[np.int64],
    k: int,
    *,
    exclude: CSR | None = None,
    unavailable: NDArray[np.int64] | None = None,
) -> Lists:
    """Each user's best k items; those in the user's row of `exclude` and the `unavailable` ones are never among them.

    Ties go to the item with the lower row, so that equal models give equal lists.
    """
    lists = np.full((len(users), k), -1, dtype=np.int64)
    wanted = min(k, model.n_items)
    size = max(1, min(512, BLOCK_SCORES // model.n_items))
    for start in range(0, len(users), size):
        block = users[start : start + size]
        scores = model.scores(block)
        if exclude is not None:
            row = np.repeat(np.arange(len(block)), exclude.counts[block])
            columns = exclude.columns[exclude.entries_of(block)]
            scores[torch.from_numpy(row), torch.from_numpy(columns).long()] = -torch.inf
        if unavailable is not None:
            scores[:, torch.from_numpy(unavailable)] = -torch.inf
        lists[start : start + len(block), :wanted] = best_columns(scores, wanted).numpy()
    return lists


def best_columns(scores: Tensor, wanted: int) -> Tensor:
    """The columns of the greatest scores of each row, -1 in the place of -inf; ties go to the lower column."""
    values, columns = torch.topk(scores, min(wanted + 1, scores.shape[1]), dim=1)
    # topk takes any of the scores that tie for the last place: such rows are sorted whole.
    tied = (values[:, wanted - 1] == values[:, -1]) & (values.shape[1] > wanted)
    columns = columns[:, :wanted].sort(dim=1).values
    values, order = torch.sort(scores.gather(1, columns), dim=1, descending=True, stable=True)
    columns = columns.gather(1, order)
    if tied.any():
        sorted_values, sorted_columns = torch.sort(scores[tied], dim=1, descending=True, stable=True)
        values[tied], columns[tied] = sorted_values[:, :wanted], sorted_columns[:, :wanted]
    return columns.masked_fill(values == -torch.inf, -1)


def hits(lists: Lists, users: NDArray[np.int64], relevant: CSR) -> Hits:
    """Which places of each user's list hold one of the user's relevant items."""
    n_columns = 1 + max(int(lists.max(initial=-1)), int(relevant.columns.max(initial=-1)))
    keys = relevant.pair_keys(n_columns)
    wanted = users[:, None] * n_columns + lists
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1) if len(keys) else np.zeros_like(wanted)
    return (lists >= 0) & (keys[place] == wanted) if len(keys) else np.zeros(lists.shape, dtype=np.bool_)


def recall(found: Hits, n_relevant: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """The share of the relevant items that is among the first k."""
    share: NDArray[np.float64] = found[:, :k].sum(1) / n_relevant
    return share


def ndcg(found: Hits, n_relevant: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """Discounted gain over that of the ideal list, the ideal cut at k."""
    discount = 1 / np.log2(np.arange(2, k + 2))
    ideal = np.concatenate([[0], np.cumsum(discount)])[np.minimum(n_relevant, k)]
    gain: NDArray[np.float64] = found[:, :k] @ discount / ideal
    return gain


def hit_rate(found: Hits, k: int) -> NDArray[np.float64]:
    """1 where any of the first k is relevant, else 0."""
    hit: NDArray[np.float64] = found[:, :k].max(axis=1).astype(np.float64)
    return hit


def mrr(found: Hits, k: int) -> NDArray[np.float64]:
    """1 over the place of the first relevant item; 0 if none is among the first k."""
    first = found[:, :k].argmax(1)
    place: NDArray[np.float64] = 1 / (first + 1.0)
    return place * found[:, :k].any(1)


def coverage(lists: Lists, n_items: int, k: int) -> float:
    """The share of all items that appears in any of the lists' first k."""
    shown = np.unique(lists[:, :k])
    return float((shown >= 0).sum() / n_items)
