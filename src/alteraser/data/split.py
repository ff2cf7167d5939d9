"""Parts of the data: a test set per user, and forget sets as in the paper (privacy requests, injected noise).

Every split works on distinct pairs, so that no pair is in both parts, and keeps the vocabulary.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions, Side
from alteraser.data.requests import Requests
from alteraser.errors import DataError, SettingError


def holdout(
    data: Interactions,
    *,
    fraction: float = 0.2,
    rng: np.random.Generator,
    users: NDArray[np.int64] | None = None,
) -> tuple[Interactions, Interactions]:
    """Train and test: a random fraction of each user's items is held out, rounded; everyone keeps one.

    With `users`, something is held out of these users' items alone.
    """
    order = rng.permutation(data.by(Side.USERS).n_entries)
    n_test = _share(data, fraction)
    if users is not None:
        n_test[~np.isin(np.arange(data.n_users), users)] = 0
    return _split(data, order, n_test)


def split_by_time(data: Interactions, *, fraction: float = 0.2) -> tuple[Interactions, Interactions]:
    """Train and test: the last fraction of each user's items is held out, rounded; everyone keeps one.

    A repeated pair counts where it came last. A null time is the oldest; equal times keep the order of
    events.
    """
    return _split(data, _last_seen(data), _share(data, fraction))


def leave_last_out(data: Interactions, *, n: int = 1) -> tuple[Interactions, Interactions]:
    """Train and test: the last `n` items of each user are held out; everyone keeps at least one."""
    if n < 1:
        raise SettingError(f"n is {n}; it must be a whole number from 1 up.")
    return _split(data, _last_seen(data), np.full(data.n_users, n))


def _share(data: Interactions, fraction: float) -> NDArray[np.int64]:
    if not 0 < fraction < 1:
        raise SettingError(f"fraction is {fraction}; it must lie between 0 and 1.")
    share: NDArray[np.int64] = np.floor(data.by(Side.USERS).counts * fraction + 0.5).astype(np.int64)
    return share


def _split(
    data: Interactions, order: NDArray[np.int64], n_test: NDArray[np.int64]
) -> tuple[Interactions, Interactions]:
    """Train, and the `n_test` pairs of each user that come last in `order`, which is given pair by pair."""
    matrix = data.by(Side.USERS)
    counts = matrix.counts
    n_test = np.minimum(n_test, np.maximum(counts - 1, 0))
    if not n_test.any():
        raise DataError(
            "No user has enough interactions to hold one out; the test set would be empty. Give more data, "
            "or hold out a larger fraction."
        )
    user = matrix.owners()
    by_user = np.lexsort((order, user))
    place = np.arange(matrix.n_entries) - np.repeat(matrix.starts[:-1], counts)
    held_out = np.empty(matrix.n_entries, dtype=bool)
    held_out[by_user] = place >= (counts - n_test)[user]
    mask = held_out[_pairs(data)]
    return data.without(mask), data.only(mask)


def _pairs(data: Interactions) -> NDArray[np.int64]:
    """The place of each event's pair among the merged rows by user."""
    keys = data.by(Side.USERS).pair_keys(data.n_items)
    return np.searchsorted(keys, data.users.astype(np.int64) * data.n_items + data.items)


def _last_seen(data: Interactions) -> NDArray[np.int64]:
    if data.times is None:
        raise DataError(
            "The data has no times, so no interaction is the last. Name the time column with time= "
            "(--time-column), or split at random with holdout."
        )
    oldest_first = data.times.to_frame("time").with_row_index("event").sort("time", maintain_order=True)
    place = np.empty(len(data), dtype=np.int64)
    place[oldest_first["event"].to_numpy()] = np.arange(len(data))
    last = np.zeros(data.by(Side.USERS).n_entries, dtype=np.int64)
    np.maximum.at(last, _pairs(data), place)
    return last


def privacy_requests(data: Interactions, *, n_users: int = 64, rng: np.random.Generator) -> Requests:
    """Requests of random users, each for a random half of their items (rounded, .5 up), as in the paper."""
    matrix = data.by(Side.USERS)
    users, items = [], []
    for user in _chosen(matrix.counts >= 2, n_users, rng, "with at least two interactions"):
        own = matrix.columns[matrix.starts[user] : matrix.starts[user + 1]]
        forgotten = np.sort(rng.choice(own, size=_half(len(own)), replace=False))
        users.append(np.full(len(forgotten), user))
        items.append(forgotten)
    return _requests(data, np.concatenate(users), np.concatenate(items))


def inject_noise(
    data: Interactions, *, n_users: int = 64, rng: np.random.Generator, avoid: Interactions | None = None
) -> tuple[Interactions, Requests]:
    """The data with false positives of random users, half as many as their own, and requests to forget them.

    The items are drawn uniformly from those the user has neither here nor in `avoid`. Each takes its time and
    weight from a random event of the same user, so that nothing but the pair tells it from the rest.
    """
    known = _known_pairs(data, avoid)
    counts = data.by(Side.USERS).counts
    n_alive = len(data.item_vocabulary) - data.item_vocabulary.n_forgotten
    roomy = (counts >= 2) & (n_alive - np.diff(known.indptr) >= (counts + 1) // 2)
    alive = data.item_vocabulary.ids.is_not_null().to_numpy()
    by_user = np.argsort(data.users, kind="stable")
    starts = np.searchsorted(data.users[by_user], np.arange(data.n_users + 1))
    users, items, models = [], [], []
    for user in _chosen(roomy, n_users, rng, "with at least two interactions and enough other items"):
        free = alive.copy()
        free[known.indices[known.indptr[user] : known.indptr[user + 1]]] = False
        drawn = np.sort(rng.choice(np.flatnonzero(free), size=_half(int(counts[user])), replace=False))
        users.append(np.full(len(drawn), user))
        items.append(drawn)
        models.append(rng.choice(by_user[starts[user] : starts[user + 1]], size=len(drawn)))
    user_rows, item_rows = np.concatenate(users), np.concatenate(items)
    noise = data.events[np.concatenate(models)].with_columns(
        user=pl.Series(user_rows, dtype=pl.Int32), item=pl.Series(item_rows, dtype=pl.Int32)
    )
    full = replace(data, events=pl.concat([data.events, noise]))
    return full, _requests(data, user_rows, item_rows)


def _half(n: int) -> int:
    return (n + 1) // 2


def _chosen(fit: NDArray[np.bool_], n_users: int, rng: np.random.Generator, which: str) -> NDArray[np.int64]:
    if n_users < 1:
        raise SettingError(f"n_users is {n_users}; it must be a whole number from 1 up.")
    candidates = np.flatnonzero(fit)
    if len(candidates) < n_users:
        raise DataError(
            f"{n_users} users {which} are wanted; the data has {len(candidates)}. Ask for fewer, or give "
            f"more data."
        )
    return np.sort(rng.choice(candidates, size=n_users, replace=False))


def _known_pairs(data: Interactions, avoid: Interactions | None) -> sp.csr_array:
    """Where each user must not be given an item: their own and those in `avoid`."""
    parts = [data]
    if avoid is not None:
        parts.append(avoid.aligned(data.user_vocabulary, data.item_vocabulary))
    users = np.concatenate([part.users for part in parts])
    items = np.concatenate([part.items for part in parts])
    return sp.csr_array((np.ones(len(users)), (users, items)), shape=(data.n_users, data.n_items))


def _requests(data: Interactions, users: NDArray[np.int64], items: NDArray[np.int64]) -> Requests:
    return Requests.pairs(data.user_vocabulary.ids.gather(users), data.item_vocabulary.ids.gather(items))
