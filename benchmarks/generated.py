"""Data of any size with the shape of real data: activity and popularity follow power laws, tastes are planted."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions, Vocabulary

MEAN_HISTORY = 60
ITEMS_PER_USER = 0.25
TOPICS = 32
ELSEWHERE = 0.3  # the share of a user's interactions outside the planted tastes
_BLOCK = 200_000  # users drawn at once; bounds the memory


def generated(n_interactions: int, rng: np.random.Generator) -> Interactions:
    """About so many interactions; users and items grow with them, the mean history hardly does.

    Popular items are drawn twice and count once: of 100,000 about half are left, of a million four fifths, and from ten
    million on all. Popularity falls as rank^-0.7, activity has a power-law tail; each user has two of 32 topics.
    """
    n_users = n_interactions // MEAN_HISTORY
    n_items = int(n_users * ITEMS_PER_USER)
    # Drawn with repetition and made distinct, histories shrink a little: a few more are drawn.
    wanted = _activity(rng, n_users, 1.12 * MEAN_HISTORY, most=min(2000, n_items // 4))
    rank_of_item = rng.permutation(n_items)
    topics = rng.integers(0, TOPICS, (n_users, 2), dtype=np.int8)
    # Filled block by block and handed over one by one: of hundreds of millions no third copy fits.
    columns = {name: np.empty(int(wanted.sum()), np.int32) for name in ("user", "item")}
    n = 0
    for start in range(0, n_users, _BLOCK):
        some = slice(start, start + _BLOCK)
        for column, drawn in zip(
            columns.values(), _draw(rng, start, wanted[some], topics[some], rank_of_item), strict=True
        ):
            column[n : n + len(drawn)] = drawn
        n += len(drawn)
    events = pl.DataFrame([pl.Series(name, columns.pop(name)[:n]) for name in tuple(columns)])
    return Interactions(
        events, Vocabulary(pl.Series(np.arange(n_users))), Vocabulary(pl.Series(np.arange(n_items)))
    )


def _activity(rng: np.random.Generator, n: int, mean: float, most: int) -> NDArray[np.int64]:
    raw = 1 + rng.pareto(1.6, n)
    scale = mean / raw.mean()
    for _ in range(20):
        scale *= mean / np.clip(scale * raw, 5, most).mean()
    activity: NDArray[np.int64] = np.clip(scale * raw, 5, most).astype(np.int64)
    return activity


def _draw(
    rng: np.random.Generator,
    start: int,
    counts: NDArray[np.int64],
    topics: NDArray[np.int8],
    rank_of_item: NDArray[np.int64],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Distinct items for some users: ranks by a power law, in a topic of theirs or anywhere."""
    n_items, n = len(rank_of_item), int(counts.sum())
    owner = np.repeat(np.arange(len(counts)), counts)
    # The distribution function of rank^-0.7 is (rank / n)^0.3.
    rank = (n_items * rng.random(n) ** (1 / 0.3)).astype(np.int64)
    topic = topics[owner, rng.integers(0, 2, n)]
    # The items of a topic are those whose rank has its remainder.
    inside = np.minimum(rank - rank % TOPICS + topic, n_items - 1)
    rank = np.where(rng.random(n) < ELSEWHERE, rank, inside)
    keys = np.unique(owner * n_items + rank)
    users, ranks = np.divmod(keys, n_items)
    return (users + start).astype(np.int32), rank_of_item[ranks].astype(np.int32)
