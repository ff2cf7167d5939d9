"""What is measured: settings, originals, requests and the ways to forget them.

Data, originals, requests and ways are crossed in full. Of the eight combinations of model, penalty and precision a data
set has four, in which every value of one meets every value of another; the next data set has the other four. That makes
72 originals with 17 cells each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions
from alteraser.data.requests import Requests
from alteraser.models.bilinear import Bilinear
from alteraser.models.enmf import ENMF
from alteraser.models.mf import MF
from alteraser.models.objective import Objective
from alteraser.train.als import ALS
from alteraser.train.named import TO_THE_OPTIMUM
from benchmarks.never_worse.records import LONG_SESSION, WAYS, Cell

DIM = 32
OBJECTIVES = {
    "ml-100k": Objective(w0=0.3, l2=0.01),
    "amazon-14core": Objective(w0=0.1, l2=0.04),
    "generated": Objective(w0=0.1, l2=0.02),
}
MODELS = ("MF", "ENMF")
PENALTIES = ("scaled", "plain")
PRECISIONS = ("float32", "float64")
OPTIMUM = "optimum"
ORIGINALS = {
    "1 pass": ALS(max_passes=1, tolerance=0),
    "3 passes": ALS(max_passes=3, tolerance=0),
    "6 passes": ALS(max_passes=6, tolerance=0),
    "12 passes": ALS(max_passes=12, tolerance=0),
    "default": ALS(),
    OPTIMUM: TO_THE_OPTIMUM,
}
HALVES, ACCOUNT, ITEM, PAIR = KINDS = ("half histories", "account", "item", "pair")
N_HALVES = 30  # users in one request
MIXED = "mixed"


@dataclass(frozen=True)
class Setting:
    """What originals are trained on, and as what."""

    data: str
    model: str
    penalty: str
    precision: str

    def objective(self, data: Interactions) -> Objective:
        """The penalty that follows the counts, or a plain one: its mean over all rows."""
        scaled = OBJECTIVES[self.data]
        if self.penalty == "scaled":
            return scaled
        l2 = np.concatenate(list(scaled.weigh(data).l2.values())).mean()
        return replace(scaled, l2=float(l2), l2_scaling=0.0)

    def untrained(self, data: Interactions, *, even: bool) -> Bilinear:
        """A model with random rows; h of ENMF is random too, for with ones it would be MF, and `even` in its size.

        With an uneven h the optimum lies beyond saddle points that take hundreds of passes to leave.
        """
        rng, dtype, objective = np.random.default_rng(0), getattr(torch, self.precision), self.objective(data)
        if self.model == "MF":
            return MF.sized_for(data, dim=DIM, objective=objective, rng=rng, dtype=dtype)
        model = ENMF.sized_for(data, dim=DIM, objective=objective, rng=rng, dtype=dtype)
        size = 1.0 if even else rng.uniform(0.5, 2.0, DIM)
        return replace(model, eta=torch.from_numpy(size * rng.choice((-1.0, 1.0), DIM)).to(dtype))


@dataclass(frozen=True)
class Grid:
    """The cells of a run; a long session has `in_a_row` requests."""

    settings: tuple[Setting, ...]
    originals: tuple[str, ...] = tuple(ORIGINALS)
    kinds: tuple[str, ...] = KINDS
    in_a_row: int = 50
    n_generated: int = 160_000  # drawn; about 100,000 are distinct

    def cells(self, setting: Setting, original: str) -> list[Cell]:
        """Every kind of request in every way, and all kinds in one long session."""
        single = [pair for pair in product(self.kinds, WAYS) if pair[1] != LONG_SESSION]
        return [
            Cell(**asdict(setting), original=original, request=kind, way=way)
            for kind, way in (*single, (MIXED, LONG_SESSION))
        ]


def _four_of_eight() -> Iterator[Setting]:
    for number, data in enumerate(OBJECTIVES):
        for model, penalty, precision in product(MODELS, PENALTIES, PRECISIONS):
            places = MODELS.index(model) + PENALTIES.index(penalty) + PRECISIONS.index(precision)
            if (places + number) % 2 == 0:
                yield Setting(data, model, penalty, precision)


FULL = Grid(tuple(_four_of_eight()))
SMALL = Grid(
    (Setting("generated", "MF", "scaled", "float32"), Setting("generated", "ENMF", "plain", "float64")),
    originals=("1 pass", OPTIMUM),
    kinds=(HALVES, ACCOUNT),
    in_a_row=4,
    n_generated=30_000,
)


@dataclass(frozen=True, eq=False)
class Asked:
    """Requests, and the events that they are to delete, found here and not by the package."""

    requests: Requests
    deleted: NDArray[np.bool_]


def ask(cell: Cell, data: Interactions, in_a_row: int) -> list[Asked]:
    """The requests of a cell: the same in every way and from every original."""
    rng, present = np.random.default_rng(0), np.ones(len(data), dtype=bool)
    if cell.request != MIXED:
        return [_ask(cell.request, data, present, rng, N_HALVES)]
    asked = []
    for number in range(in_a_row):
        asked.append(_ask(KINDS[number % len(KINDS)], data, present, rng, 1))
        present = present & ~asked[-1].deleted
    return asked


def _ask(
    kind: str, data: Interactions, present: NDArray[np.bool_], rng: np.random.Generator, n_users: int
) -> Asked:
    """A request for some of the events that are present; who has many is the likelier to be drawn."""
    users, items = data.users, data.items
    user_ids, item_ids = data.user_vocabulary.ids, data.item_vocabulary.ids
    if kind == HALVES:
        events = _halves(users, present, rng, n_users)
        deleted = np.isin(np.arange(len(data)), events)
        return Asked(Requests.pairs(user_ids.gather(users[events]), item_ids.gather(items[events])), deleted)
    event = rng.choice(np.flatnonzero(present))
    user, item = {"user": user_ids[int(users[event])]}, {"item": item_ids[int(items[event])]}
    by_user, by_item = present & (users == users[event]), present & (items == items[event])
    wish, deleted = {
        ACCOUNT: (user, by_user),
        ITEM: (item, by_item),
        PAIR: (user | item, by_user & by_item),
    }[kind]
    return Asked(Requests.of([wish]), deleted)


def _halves(
    users: NDArray[np.int32], present: NDArray[np.bool_], rng: np.random.Generator, n_users: int
) -> NDArray[np.int64]:
    """Half of the present events of each of some users."""
    counts = np.bincount(users[present])
    chosen = rng.choice(np.flatnonzero(counts >= 2), n_users, replace=False)
    return np.concatenate(
        [
            rng.choice(np.flatnonzero(present & (users == user)), counts[user] // 2, replace=False)
            for user in chosen
        ]
    )
