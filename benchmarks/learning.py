"""What it takes a live model to learn new events of a user, a new user or a new item, in exact passes of one run.

What is learned is forgotten again before the next is, so that each finds the same data.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions
from alteraser.data.requests import Requests
from alteraser.live.model import LiveModel
from alteraser.models.mf import MF
from alteraser.train.als import ALS
from alteraser.tuning.choose import choose_objective
from benchmarks.kinds.originals import DIM, load_data
from benchmarks.timing import seconds_of_a_pass

DATASETS = ("ml-1m", "amazon-book-kgat")
WARM, N_REQUESTS, N_EVENTS = 5, 100, 20
NEW = "1000000007"  # an id that no data set has, whether its ids are numbers or texts
EVENTS, USER, ITEM = KINDS = (
    "20 new events of a user",
    "a new user with 20 events",
    "a new item with 20 events",
)
# In exact passes, at the median.
LIMITS = {EVENTS: 0.05, USER: 0.03, ITEM: 0.1}


def measure(data_dir: str | None) -> dict[str, Any]:
    """The time of each kind on each data set, from a model as `alteraser train` leaves it."""
    return {"limits": LIMITS, "figures": [_of(name, load_data(name, data_dir)) for name in DATASETS]}


def _of(name: str, data: Interactions) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    objective = choose_objective(data, dim=DIM, rng=rng).objective
    start = MF.sized_for(data, dim=DIM, objective=objective, rng=rng)
    model = ALS().train(start, data, rng=None).model
    live, new = LiveModel(model, data), EventSampler(data)
    figures = []
    for kind in KINDS:
        a_pass, seconds = seconds_of_a_pass(model, data), []
        for number in range(WARM + N_REQUESTS):
            events = new.draw(kind, rng)
            learned = live.learn(events)
            live.forget(Requests.pairs(events["user_id"], events["item_id"]))  # so that each begins alike
            if number >= WARM:
                seconds.append(learned.cost.seconds)
        a_pass = statistics.median([a_pass, seconds_of_a_pass(model, data)])
        figures.append({"kind": kind, "pass_ms": 1e3 * a_pass, "passes": [each / a_pass for each in seconds]})
    return {"dataset": name, "kinds": figures}


class EventSampler:
    """Draws events that the data does not have, of users and items as they are drawn from its events."""

    def __init__(self, data: Interactions) -> None:
        self._data = data
        self._order = np.argsort(data.users, kind="stable")
        self._starts = np.concatenate([[0], np.bincount(data.users, minlength=data.n_users).cumsum()])

    def draw(self, kind: str, rng: np.random.Generator) -> pl.DataFrame:
        """One change of a kind."""
        make: dict[str, Callable[[np.random.Generator], pl.DataFrame]] = {
            EVENTS: self._of_a_user,
            USER: self._of_a_new_user,
            ITEM: self._of_a_new_item,
        }
        return make[kind](rng)

    def _of_a_user(self, rng: np.random.Generator) -> pl.DataFrame:
        user = int(self._data.users[rng.integers(len(self._data))])
        held = self._data.items[self._order[self._starts[user] : self._starts[user + 1]]]
        items = self._distinct(self._data.items, rng, but=held)
        return self._frame(np.full(len(items), user), items)

    def _of_a_new_user(self, rng: np.random.Generator) -> pl.DataFrame:
        items = self._ids(self._data.item_vocabulary.ids, self._distinct(self._data.items, rng))
        return pl.DataFrame({"user_id": [NEW] * len(items), "item_id": items})

    def _of_a_new_item(self, rng: np.random.Generator) -> pl.DataFrame:
        users = self._ids(self._data.user_vocabulary.ids, self._distinct(self._data.users, rng))
        return pl.DataFrame({"user_id": users, "item_id": [NEW] * len(users)})

    @staticmethod
    def _distinct(
        rows: NDArray[np.int32], rng: np.random.Generator, but: NDArray[np.int32] | None = None
    ) -> NDArray[np.int32]:
        """So many different rows as they come in the data: those with many events more often."""
        drawn = np.unique(rows[rng.integers(0, len(rows), 20 * N_EVENTS)])
        able = drawn if but is None else np.setdiff1d(drawn, but)
        return rng.choice(able, min(N_EVENTS, len(able)), replace=False)

    def _frame(self, users: NDArray[Any], items: NDArray[np.int32]) -> pl.DataFrame:
        return pl.DataFrame(
            {
                "user_id": self._ids(self._data.user_vocabulary.ids, users),
                "item_id": self._ids(self._data.item_vocabulary.ids, items),
            }
        )

    @staticmethod
    def _ids(ids: pl.Series, rows: NDArray[Any]) -> list[str]:
        return ids.gather(rows).cast(pl.String).to_list()
