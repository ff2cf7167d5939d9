"""New events in the store: what comes and goes in any order leaves what reading the events that are left gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from alteraser import DataError, Interactions, Requests, UnknownInteractions
from alteraser.data.event_store import EventStore
from alteraser.data.interactions import MERGES, Merge, Side

Event = tuple[str, str, float, int | None]


def some_events(rng: np.random.Generator, n: int, *, n_users: int = 25) -> list[Event]:
    """Events of few pairs, some of them with no time; no two are alike."""
    found = {
        (
            f"u{rng.integers(n_users)}",
            f"i{rng.integers(12)}",
            float(rng.integers(1, 9)) / 2,
            int(rng.integers(0, 10_000)) if rng.random() < 0.9 else None,
        )
        for _ in range(n)
    }
    return sorted(found, key=str)


def as_interactions(events: list[Event], merge: Merge) -> Interactions:
    users, items, weights, times = zip(*events, strict=True)
    return Interactions.from_columns(
        pl.Series(users), pl.Series(items), pl.Series(weights), pl.Series(times, dtype=pl.Int64), merge=merge
    )


def weights_by_id(data: Interactions) -> dict[tuple[str, str], float]:
    by_user = data.by(Side.USERS)
    users = data.user_vocabulary.ids.gather(by_user.owners()).to_list()
    items = data.item_vocabulary.ids.gather(by_user.columns).to_list()
    return dict(zip(zip(users, items, strict=True), by_user.weights.tolist(), strict=True))


@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.parametrize("seed", range(4))
def test_what_comes_and_goes_leaves_what_reading_the_rest_gives(merge: Merge, seed: int) -> None:
    rng = np.random.default_rng(seed)
    left = some_events(rng, 80)
    store = EventStore(as_interactions(left, merge))
    before = weights_by_id(store.interactions())
    for step in range(30):
        gone = f"u{rng.integers(25)}" if rng.random() < 0.5 else None
        new = [
            event
            for event in some_events(rng, int(rng.integers(1, 12)), n_users=25 + step)
            if event not in left
        ]
        new = new if new and (gone is None or rng.random() < 0.5) else []
        left = [event for event in left if event[0] != gone] + new
        requests = None if gone is None else Requests.of([{"user": gone}])
        applied = store.apply(requests, as_interactions(new, merge) if new else None, "ignore")
        after = weights_by_id(as_interactions(left, merge))
        now = store.interactions()
        assert weights_by_id(now) == after
        assert now.digest() == as_interactions(left, merge).digest()
        assert len(store) == len(left)
        # The change names the pairs that are other than before, with what they were and what they are.
        change = applied.change
        users, items = (
            now.vocabulary(side).ids.gather(change.rows(side)).to_list() for side in (Side.USERS, Side.ITEMS)
        )
        for place, pair in enumerate(zip(users, items, strict=True)):
            if None in pair:  # an id that has gone
                assert not change.after.present[place]
                continue
            assert (change.before.present[place], change.before.values[place]) == (
                pair in before,
                before.get(pair, 0),
            )
            assert (change.after.present[place], change.after.values[place]) == (
                pair in after,
                after.get(pair, 0),
            )
        named = set(zip(users, items, strict=True))
        assert {pair for pair in after if after[pair] != before.get(pair)} <= named
        before = after


def test_what_was_moved_or_taken_is_nowhere_in_the_columns() -> None:
    rng = np.random.default_rng(0)
    left = some_events(rng, 60)
    store = EventStore(as_interactions(left, "max"))
    for _ in range(10):  # users outgrow their room and are moved
        new = [event for event in some_events(rng, 20) if event not in left]
        left += new
        store.apply(None, as_interactions(new, "max"))
    store.take(Requests.of([{"user": "u3"}]))
    times = {event[3] for event in left if event[0] == "u3"} - {
        event[3] for event in left if event[0] != "u3"
    }
    assert times
    assert not times & set(store._columns["time"].values.tolist())


def test_a_forgotten_id_that_comes_back_is_a_new_one() -> None:
    store = EventStore(as_interactions([("a", "x", 1.0, 1), ("b", "x", 1.0, 2), ("b", "y", 1.0, 3)], "max"))
    store.take(Requests.of([{"user": "a"}]))
    applied = store.apply(None, as_interactions([("a", "y", 1.0, 4)], "max"))
    assert applied.change.users.tolist() == [2]
    assert store.interactions().user_vocabulary.ids.to_list() == [None, "b", "a"]


def test_what_is_learned_in_the_same_step_is_not_forgotten_by_it() -> None:
    store = EventStore(as_interactions([("a", "x", 1.0, 1), ("a", "y", 1.0, 2), ("b", "y", 1.0, 3)], "max"))
    store.apply(Requests.of([{"user": "a"}]), as_interactions([("a", "x", 3.0, 9)], "max"))
    assert weights_by_id(store.interactions()) == {("a", "x"): 3.0, ("b", "y"): 1.0}
    assert store.interactions().user_vocabulary.ids.to_list() == ["a", "b"]  # it had an event all along


def columns(users: list[Any], **more: Any) -> Interactions:
    named = {name: pl.Series(values) for name, values in more.items()}
    return Interactions.from_columns(
        pl.Series(users), pl.Series(["x"] * len(users)), named.get("weights"), named.get("times")
    )


@pytest.mark.parametrize(
    ("data", "new", "told"),
    [
        (columns([1, 2]), columns([3, 3]), "1 of 2 events came twice"),
        (columns([1, 2]), columns([3], weights=[1.0]), "come with weights, the data of the model without"),
        (
            columns([1, 2], weights=[1.0, 2.0]),
            columns([3]),
            "come without weights, the data of the model with",
        ),
        (
            columns([1, 2]),
            columns(["three"]),
            "1 of 1 users of the new events have ids that are not of the type",
        ),
        (columns([1, 2], times=[1, 2]), columns([3], times=["2024-05-31"]), "are of type Datetime"),
    ],
)
def test_events_that_do_not_fit_are_refused_and_change_nothing(
    data: Interactions, new: Interactions, told: str
) -> None:
    store = EventStore(data)
    with pytest.raises(DataError, match=told):
        store.apply(Requests.of([{"user": 1}]), new)
    assert store.interactions().digest() == data.digest()


def test_a_request_that_cannot_be_met_keeps_the_new_events_out() -> None:
    data = columns([1, 2])
    store = EventStore(data)
    with pytest.raises(UnknownInteractions):
        store.apply(Requests.of([{"user": 7}]), columns([3]))
    assert store.interactions().digest() == data.digest()


def test_new_events_without_times_are_refused_where_the_last_counts() -> None:
    store = EventStore(as_interactions([("a", "x", 1.0, 1), ("b", "x", 1.0, 2)], "last"))
    with pytest.raises(DataError, match="give each event its time"):
        store.apply(None, columns(["a"], weights=[2.0]))
