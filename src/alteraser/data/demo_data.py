"""Demo data: an embedded set with accounts that somebody with another taste used."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alteraser.data.csr import CSR
from alteraser.data.datasets import embedded
from alteraser.data.interactions import Interactions, Side
from alteraser.data.requests import Requests
from alteraser.data.split import holdout
from alteraser.data.synthetic import TOPICS, topic_of
from alteraser.errors import DataError

_ENOUGH = 20  # items of one's own, so that a foreign half shows


@dataclass(frozen=True, eq=False)
class ForeignTaste:
    """Data with false interactions in it, a part held out, requests to forget what is false, and each user's foreign
    topic by row. `account` is the id of another user, about as active as the average.
    """

    full: Interactions
    test: Interactions
    requests: Requests
    topic_of_user: dict[int, str]
    account: str


def foreign_taste(rng: np.random.Generator, *, dataset: str = "synthetic", n_users: int = 32) -> ForeignTaste:
    """An embedded data set, a fifth of it held out, with interactions of a foreign taste added for some users."""
    train, test = holdout(embedded(dataset).data, fraction=0.2, rng=rng)
    return inject_foreign_taste(train, test, n_users=n_users, rng=rng)


def inject_foreign_taste(
    train: Interactions, test: Interactions, *, n_users: int, rng: np.random.Generator
) -> ForeignTaste:
    """Gives random users half as many items again, all of a topic they care little for.

    None is an item the user has, in `train` or in `test`: what is forgotten is never what was right to recommend.
    Both parts are of an embedded data set, whose items tell their topic, and on the same rows, as a split leaves them.
    """
    topics = np.array([TOPICS.index(topic_of(name)) for name in train.item_vocabulary.ids])
    own, held_out = train.by(Side.USERS), test.by(Side.USERS)
    candidates = np.flatnonzero(own.counts >= _ENOUGH)
    if len(candidates) < n_users:
        raise DataError(
            f"{n_users} users with at least {_ENOUGH} items are wanted; the data has {len(candidates)}."
        )
    users, items, topic_of_user = [], [], {}
    for user in rng.choice(candidates, n_users, replace=False):
        mine = _row(own, user)
        topic = _little_liked(topics[mine], rng)
        free = np.setdiff1d(np.flatnonzero(topics == topic), np.concatenate([mine, _row(held_out, user)]))
        drawn = rng.choice(free, min(len(mine) // 2, len(free) // 2), replace=False)
        users.append(np.full(len(drawn), user))
        items.append(drawn)
        topic_of_user[int(user)] = TOPICS[topic]
    return _injected(train, test, np.concatenate(users), np.concatenate(items), topic_of_user, rng)


def _row(by_user: CSR, user: int) -> NDArray[np.int32]:
    return by_user.columns[by_user.starts[user] : by_user.starts[user + 1]]


def _little_liked(topics: NDArray[np.int64], rng: np.random.Generator) -> int:
    """One of the topics that have no more of the items than the middle one has."""
    counts = np.bincount(topics, minlength=len(TOPICS))
    return int(rng.choice(np.flatnonzero(counts <= np.sort(counts)[len(TOPICS) // 2])))


def _injected(
    train: Interactions,
    test: Interactions,
    users: NDArray[np.int64],
    items: NDArray[np.int64],
    topic_of_user: dict[int, str],
    rng: np.random.Generator,
) -> ForeignTaste:
    # What else an event has, as its time, is that of another event: only the pair tells a false one.
    like = train.events[rng.choice(len(train), len(users), replace=False)]
    rows = {"user": pl.Series(users, dtype=pl.Int32), "item": pl.Series(items, dtype=pl.Int32)}
    full = replace(train, events=pl.concat([train.events, like.with_columns(**rows)]))
    requests = Requests.pairs(
        train.user_vocabulary.ids.gather(users), train.item_vocabulary.ids.gather(items)
    )
    account = train.user_vocabulary.ids[_average_user(train, set(topic_of_user))]
    return ForeignTaste(full, test, requests, topic_of_user, account)


def _average_user(data: Interactions, left_out: set[int]) -> int:
    """The user whose number of items is nearest to the mean; the first of equals."""
    counts = data.by(Side.USERS).counts
    distance = np.abs(counts - counts.mean())
    distance[list(left_out)] = np.inf
    return int(np.argmin(distance))
