"""The kinds of requests, and requests of each kind drawn from a data set."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions, Side
from alteraser.data.requests import Requests

PAIR, ITEMS, PERIOD, HALF, ACCOUNT, ITEM, BLOCKBUSTER, ACCOUNTS, PERCENT = KINDS = (
    "one pair",
    "listed items",
    "a period",
    "half a history",
    "an account",
    "an item",
    "a blockbuster",
    "64 accounts",
    "1 % of all",
)
LARGE = (ACCOUNTS, PERCENT)
N_LISTED, N_ACCOUNTS, PERCENT_SHARE = 5, 64, 0.01
# The share of the items that count as blockbusters, by how many interactions they have.
TOP = 0.01


@dataclass(frozen=True, eq=False)
class Asked:
    """Requests, and the events that they delete, found here and not by the package."""

    requests: Requests
    deleted: NDArray[np.bool_]

    @property
    def digest(self) -> str:
        """A name for what is deleted, for files; who it is cannot be told from it without the data."""
        return hashlib.sha256(np.packbits(self.deleted).tobytes()).hexdigest()[:16]


class Sampler:
    """Draws requests from data; the same ones for every original, and for every revision of the package."""

    def __init__(self, data: Interactions) -> None:
        self._data = data
        self._users, self._items = data.users, data.items
        self._order = np.argsort(self._users, kind="stable")
        self._starts = np.concatenate([[0], np.bincount(self._users, minlength=data.n_users).cumsum()])
        self._user_ids, self._item_ids = data.user_vocabulary.ids, data.item_vocabulary.ids
        self._popularity = np.bincount(self._items, minlength=data.n_items)

    def sample(self, kind: str, n: int) -> list[Asked]:
        """So many requests of a kind, each of its own, as far as there are so many."""
        rng = np.random.default_rng([KINDS.index(kind), 14])
        draw: dict[str, Callable[[np.random.Generator, int], list[Asked]]] = {
            PAIR: lambda rng, n: [self._part(user, rng, 1, 1) for user in self._some_users(rng, n, 2)],
            ITEMS: lambda rng, n: [
                self._part(user, rng, N_LISTED, 1) for user in self._some_users(rng, n, N_LISTED + 1)
            ],
            PERIOD: self._periods,
            HALF: lambda rng, n: [self._part(user, rng, None, 2) for user in self._some_users(rng, n, 2)],
            ACCOUNT: lambda rng, n: [
                self._accounts(np.array([user])) for user in self._some_users(rng, n, 1)
            ],
            ITEM: lambda rng, n: self._whole_items(rng, n, np.flatnonzero(self._popularity)),
            BLOCKBUSTER: lambda rng, n: self._whole_items(rng, n, self._blockbusters()),
            ACCOUNTS: lambda rng, n: [
                self._accounts(np.sort(self._some_users(rng, N_ACCOUNTS, 1))) for _ in range(n)
            ],
            PERCENT: lambda rng, n: [self._percent(rng) for _ in range(n)],
        }
        return draw[kind](rng, n)

    def _some_users(self, rng: np.random.Generator, n: int, least: int) -> NDArray[np.int64]:
        able = np.flatnonzero(np.diff(self._starts) >= least)
        return rng.choice(able, min(n, len(able)), replace=False)

    def _events(self, user: int) -> NDArray[np.int64]:
        return self._order[self._starts[user] : self._starts[user + 1]]

    def _mask(self, events: NDArray[np.int64]) -> NDArray[np.bool_]:
        mask = np.zeros(len(self._data), np.bool_)
        mask[events] = True
        return mask

    def _part(self, user: int, rng: np.random.Generator, n: int | None, divisor: int) -> Asked:
        events = self._events(user)
        chosen = rng.choice(events, len(events) // divisor if n is None else n, replace=False)
        items = self._item_ids.gather(self._items[chosen]).to_list()
        return Asked(Requests.of([{"user": self._user_ids[int(user)], "items": items}]), self._mask(chosen))

    def _periods(self, rng: np.random.Generator, n: int) -> list[Asked]:
        """A quarter of a user's events, from one time to another."""
        times, asked = self._data.events["time"].to_numpy(), []
        for user in self._some_users(rng, n, 8):
            events = self._events(user)
            at = np.sort(times[events])
            begin = int(rng.integers(0, len(at) - len(at) // 4))
            first, last = at[begin], at[begin + len(at) // 4]
            inside = events[(times[events] >= first) & (times[events] <= last)]
            wish: dict[str, Any] = {
                "user": self._user_ids[int(user)],
                "from": first.item(),
                "to": last.item(),
            }
            asked.append(Asked(Requests.of([wish]), self._mask(inside)))
        return asked

    def _accounts(self, users: NDArray[np.int64]) -> Asked:
        wishes = [{"user": self._user_ids[user]} for user in users.tolist()]
        return Asked(Requests.of(wishes), np.isin(self._users, users))

    def _blockbusters(self) -> NDArray[np.int64]:
        return np.argsort(-self._popularity, kind="stable")[: max(int(TOP * len(self._popularity)), 1)]

    def _whole_items(self, rng: np.random.Generator, n: int, among: NDArray[np.int64]) -> list[Asked]:
        items = rng.choice(among, min(n, len(among)), replace=False)
        return [
            Asked(Requests.of([{"item": self._item_ids[item]}]), self._items == item)
            for item in items.tolist()
        ]

    def _percent(self, rng: np.random.Generator) -> Asked:
        n = max(int(PERCENT_SHARE * len(self._data)), 1)
        events = rng.choice(len(self._data), n, replace=False)
        ids = self._user_ids.gather(self._users[events]), self._item_ids.gather(self._items[events])
        return Asked(Requests.pairs(*ids), self._mask(events))


def with_times(data: Interactions) -> Interactions:
    """The data with times; where they are not known of all events, these stand in a random order."""
    if "time" in data.events.columns and data.events["time"].null_count() == 0:
        return data
    times = np.random.default_rng(14).permutation(len(data)).astype(np.int64)
    events = data.events.with_columns(pl.Series("time", times))
    return replace(data, events=events)


def concerned(asked: Asked, data: Interactions) -> NDArray[np.int64]:
    """The users who lose interactions and still have some."""
    left = np.bincount(data.users[~asked.deleted], minlength=data.n_users)
    users = np.unique(data.users[asked.deleted])
    return users[left[users] > 0].astype(np.int64)


def emptied(asked: Asked, data: Interactions) -> dict[Side, NDArray[np.int64]]:
    """The rows of each side that lose their last interaction."""
    rows = {Side.USERS: data.users, Side.ITEMS: data.items}
    n = {Side.USERS: data.n_users, Side.ITEMS: data.n_items}
    return {
        side: np.flatnonzero(
            np.bincount(of[asked.deleted], minlength=n[side]) == np.bincount(of, minlength=n[side])
        )
        for side, of in rows.items()
    }
