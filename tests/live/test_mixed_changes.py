"""Hundreds of changes in one live model: its data is always that of reading what is left, entry by entry."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from alteraser import MF, Interactions, LiveModel, Objective, fit, interactions
from alteraser.data.interactions import Side
from alteraser.errors import NothingRemains

Event = tuple[str, str, float]


def some_events(rng: np.random.Generator, n: int, n_users: int, n_items: int) -> list[Event]:
    """Events of different pairs."""
    pairs = rng.choice(n_users * n_items, n, replace=False)
    return [
        (f"u{pair // n_items}", f"i{pair % n_items}", float(weight))
        for pair, weight in zip(pairs.tolist(), rng.integers(1, 5, n), strict=True)
    ]


def read(events: list[Event], merge: Any) -> Interactions:
    frame = pl.DataFrame(events, schema=["user_id", "item_id", "weight"], orient="row")
    return interactions(frame, weight="weight", merge=merge)


def by_id(data: Interactions) -> dict[tuple[str, str], float]:
    """The merged weight of each pair."""
    csr = data.by(Side.USERS)
    users = data.user_vocabulary.ids.gather(csr.owners()).to_list()
    items = data.item_vocabulary.ids.gather(csr.columns).to_list()
    return dict(zip(zip(users, items, strict=True), csr.weights.tolist(), strict=True))


def wish(rng: np.random.Generator) -> dict[str, Any]:
    """An account, an item or some items of a user, known or not."""
    user, items = f"u{rng.integers(0, 60)}", [f"i{item}" for item in rng.choice(33, 4, replace=False)]
    wishes: list[dict[str, Any]] = [{"user": user}, {"item": items[0]}, {"user": user, "items": items}]
    return wishes[rng.choice(3, p=[0.5, 0.2, 0.3])]


def without(events: list[Event], asked: dict[str, Any]) -> list[Event]:
    items = asked.get("items", [asked["item"]] if "item" in asked else None)
    return [
        (user, item, weight)
        for user, item, weight in events
        if asked.get("user", user) != user or (items is not None and item not in items)
    ]


@pytest.mark.parametrize(("seed", "merge"), [(0, "max"), (1, "sum"), (2, "max"), (3, "sum")])
def test_whatever_comes_and_goes_the_data_is_that_of_reading_the_rest(seed: int, merge: Any) -> None:
    rng = np.random.default_rng(seed)
    left = some_events(rng, 500, 40, 30)
    data = read(left, merge)
    start = MF.sized_for(data, dim=4, objective=Objective(w0=0.2, l2=0.05), rng=rng)
    live = LiveModel(fit(start, data).model, data)
    for step in range(200):
        kind = rng.random()
        learned = some_events(rng, int(rng.integers(1, 40)), 45 + step // 10, 33) if kind < 0.6 else []
        held = set(left)
        learned = [event for event in learned if event not in held]  # else it would be the same event twice
        asked = wish(rng) if kind > 0.45 or not learned else None
        try:
            live.apply(forget=asked, learn=read(learned, merge) if learned else None, missing="ignore")
        except NothingRemains:
            continue
        left = (left if asked is None else without(left, asked)) + learned
        remain = live.remain
        assert by_id(remain) == by_id(read(left, merge))
        for side, state in live._refiner.state.sides.items():
            rows, merged = np.arange(len(state)), remain.by(side)
            entries = state.entries.packed(rows)
            np.testing.assert_array_equal(entries.stops - entries.starts, merged.counts)
            np.testing.assert_array_equal(entries.columns, merged.columns)
            np.testing.assert_array_equal(entries.weights, merged.weights)
