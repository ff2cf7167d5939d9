"""Top-k lists and how good they are. Measures are plain functions of lists and relevant items, one value per user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from alteraser.data.csr import CSR

if TYPE_CHECKING:
    from torch import Tensor

Lists = NDArray[np.int64]  # [n_users, k], best first; -1 where there is nothing more to recommend
BLOCK_SCORES = 2**24  # scores held at a time
Hits = NDArray[np.bool_]  # [n_users, k]


class Scoring(Protocol):
    """What lists need of a model, whose scores may be tensors or plain arrays."""

    @property
    def n_items(self) -> int: ...

    def scores(self, users: NDArray[np.int64]) -> Tensor | NDArray[Any]: ...


def top_k(
    model: Scoring,
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
        values = np.asarray(scores)  # the same memory
        if exclude is not None:
            row = np.repeat(np.arange(len(block)), exclude.counts[block])
            values[row, exclude.columns[exclude.entries_of(block)]] = -np.inf
        if unavailable is not None:
            values[:, unavailable] = -np.inf
        lists[start : start + len(block), :wanted] = best_columns(scores, wanted)
    return lists


def best_columns(scores: Tensor | NDArray[Any], wanted: int) -> NDArray[np.int64]:
    """The columns of the greatest scores of each row, -1 in the place of -inf; ties go to the lower column."""
    values = np.asarray(scores)
    if values.shape[1] > wanted:
        columns = _greatest(scores, wanted + 1)
        found = np.take_along_axis(values, columns, 1)
        tied = found[:, -1] == found[:, -2]  # it might as well have been another: such rows are sorted whole
        best = np.empty((len(values), wanted), np.int64)
        best[tied] = _descending(values[tied])[:, :wanted]
        kept = np.sort(columns[~tied, :-1], axis=1)
        order = _descending(np.take_along_axis(values[~tied], kept, 1))
        best[~tied] = np.take_along_axis(kept, order, 1)
    else:
        best = _descending(values)
    return np.where(np.take_along_axis(values, best, 1) == -np.inf, -1, best)


def _greatest(scores: Tensor | NDArray[Any], n: int) -> NDArray[np.int64]:
    """The columns of the n greatest scores of each row, from the greatest down, equal ones in any order."""
    if isinstance(scores, np.ndarray):
        columns = np.argpartition(scores, scores.shape[1] - n, axis=1)[:, scores.shape[1] - n :]
        order = np.argsort(np.take_along_axis(scores, columns, 1), axis=1)[:, ::-1]
        return np.take_along_axis(columns, order, 1)
    found: NDArray[np.int64] = scores.topk(n, dim=1).indices.numpy()  # several times as fast
    return found


def _descending(values: NDArray[Any]) -> NDArray[np.int64]:
    """The order of each row from the greatest down, equal ones as they stand."""
    return np.argsort(-values, axis=1, kind="stable")


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


def ndcg_of_users(
    model: Scoring, users: NDArray[np.int64], relevant: CSR, k: int, *, exclude: CSR
) -> NDArray[np.float64]:
    """The NDCG@k of each user's list, without what is excluded."""
    found = hits(top_k(model, users, k, exclude=exclude), users, relevant)
    return ndcg(found, relevant.counts[users], k)


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
