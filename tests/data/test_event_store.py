"""The event book: requests taken one after another leave what deleting them from the data at once leaves."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from alteraser import Interactions, NothingRemains, Request, Requests, UnknownInteractions
from alteraser.data.event_store import EventStore
from alteraser.data.interactions import MERGES, Merge, Side


def repeated(merge: Merge, *, numbers: bool = False) -> Interactions:
    """Many events for few pairs, with weights and times, some of them null."""
    rng = np.random.default_rng(0)
    n = 400
    users, items = rng.integers(0, 20, n), rng.integers(0, 12, n)
    times = pl.Series(rng.integers(0, 1000, n)).cast(pl.Int64)
    times = pl.select(pl.when(pl.Series(rng.random(n) < 0.9)).then(times)).to_series()
    ids = (users, items) if numbers else ([f"u{u}" for u in users], [f"i{i}" for i in items])
    return Interactions.from_columns(
        pl.Series(ids[0]), pl.Series(ids[1]), pl.Series(rng.integers(1, 9, n) / 2), times, merge=merge
    )


REQUESTS: list[list[dict[str, Any]]] = [
    [{"user": "u3"}],
    [{"user": "u4", "items": ["i1", "i2", "i5"]}],
    [{"user": "u5", "from": 100, "to": 500}, {"user": "u6", "to": 300}],
    [{"item": "i7"}],
    [{"user": "u8", "items": ["i0"], "from": 200}, {"item": "i9", "to": 400}, {"user": "u4"}],
]


@pytest.mark.parametrize("merge", MERGES)
def test_requests_one_after_another_leave_what_one_deletion_leaves(merge: Merge) -> None:
    data = repeated(merge)
    book = EventStore(data)
    remain = data
    for each in REQUESTS:
        requested = Requests.of(each)
        before, match = remain, requested.match(remain, "ignore")
        remain = remain.without(match.mask).with_tombstones(remain)
        taken = book.take(requested, "ignore")
        assert taken.counts.n_events.tolist() == match.counts.n_events.tolist()
        assert taken.counts.n_forgotten == match.counts.n_forgotten == int(match.mask.sum())
        change = taken.change
        now, then = remain.by(Side.USERS), before.by(Side.USERS)
        pairs = {
            (user, int(then.columns[at]))
            for user in range(len(then))
            for at in range(then.starts[user], then.starts[user + 1])
        }
        changed = list(zip(change.users.tolist(), change.items.tolist(), strict=True))
        assert set(changed) <= pairs
        assert change.before.present.all()
        asked = then.weights_of(change.users, change.items, n_columns=data.n_items)
        assert change.before.values.tolist() == asked.values.tolist()
        held = {
            (user, int(now.columns[at])): now.weights[at]
            for user in range(len(now))
            for at in range(now.starts[user], now.starts[user + 1])
        }
        stays = change.after.present.tolist()
        assert pairs - set(held) == {pair for pair, left in zip(changed, stays, strict=True) if not left}
        weights = zip(changed, stays, change.after.values, strict=True)
        assert all(held[pair] == weight for pair, left, weight in weights if left)
    left = book.interactions()
    assert len(left) == len(book) == len(remain)
    order = ["user", "item", "time", "weight"]
    assert_frame_equal(left.events.sort(order), remain.events.sort(order), check_column_order=False)
    assert left.user_vocabulary.ids.to_list() == remain.user_vocabulary.ids.to_list()
    assert left.item_vocabulary.ids.to_list() == remain.item_vocabulary.ids.to_list()


@pytest.mark.parametrize("n_twice", [0, 50])
def test_random_requests_match_in_the_book_as_in_the_data(n_twice: int) -> None:
    rng = np.random.default_rng(n_twice)
    pairs = rng.permutation(600)[:300]
    pairs = np.concatenate([pairs, pairs[:n_twice]])
    remain = Interactions.from_columns(
        pl.Series([f"u{pair // 20}" for pair in pairs]), pl.Series([f"i{pair % 20}" for pair in pairs])
    )
    book = EventStore(remain)
    for _ in range(12):
        asked: list[dict[str, Any]] = []
        for event in rng.choice(len(remain), 4):
            user = remain.user_vocabulary.ids[int(remain.users[event])]
            item = remain.item_vocabulary.ids[int(remain.items[event])]
            asked.append({"user": user} | ({"items": [item]} if rng.random() < 0.8 else {}))
        if rng.random() < 0.3:
            asked.append({"user": "u1", "items": ["nothing"]})
        requested = Requests.of(asked + asked[: rng.integers(0, 2)])
        match = requested.match(remain, "ignore")
        taken = book.take(requested, "ignore").counts
        assert (taken.n_honoured, taken.n_repeated, taken.n_missing, taken.n_events.tolist()) == (
            match.counts.n_honoured,
            match.counts.n_repeated,
            match.counts.n_missing,
            match.counts.n_events.tolist(),
        )
        remain = remain.without(match.mask).with_tombstones(remain)
        assert_frame_equal(
            book.interactions().events.sort("user", "item"),
            remain.events.sort("user", "item"),
            check_column_order=False,
        )


@pytest.mark.parametrize("dtype", [pl.Int64, pl.Float64, pl.Datetime("us")])
@pytest.mark.parametrize("n_twice", [0, 60])
def test_a_single_request_matches_in_the_book_as_in_the_data(n_twice: int, dtype: Any) -> None:
    """Whole users and items, pairs and periods of them, also where a pair has events inside and outside a period."""
    rng = np.random.default_rng(n_twice)
    pairs = rng.permutation(600)[:300]
    pairs = np.concatenate([pairs, pairs[:n_twice]])
    remain = Interactions.from_columns(
        pl.Series([f"u{pair // 20}" for pair in pairs]),
        pl.Series([f"i{pair % 20}" for pair in pairs]),
        times=pl.Series(rng.integers(-50, 100, len(pairs))).cast(dtype),
    )
    book = EventStore(remain)
    for turn in range(40):
        event = int(rng.integers(len(remain)))
        user = {"user": remain.user_vocabulary.ids[int(remain.users[event])]}
        item = {"item": remain.item_vocabulary.ids[int(remain.items[event])]}
        wish: dict[str, Any] = [user, item, user | item][turn % 3]
        if turn % 2:
            ends = [-10, 60] if dtype != pl.Datetime("us") else ["1969-12-31", "1970-01-01"]
            wish = wish | dict(zip([("from",), ("to",), ("from", "to")][turn % 5 % 3], ends, strict=False))
        requested = Requests.of([wish])
        match = requested.match(remain, "ignore")
        taken = book.take(requested, "ignore")
        assert taken.counts.n_events.tolist() == match.counts.n_events.tolist()
        assert taken.counts.n_null_times == match.counts.n_null_times
        remain = remain.without(match.mask).with_tombstones(remain)
        order = ["user", "item", "time"]
        left = book.interactions().events
        assert_frame_equal(left.sort(order), remain.events.sort(order), check_column_order=False)


def test_ids_are_compared_as_the_data_has_them() -> None:
    book = EventStore(repeated("max", numbers=True))
    taken = book.take(Requests.of([{"user": "3"}]))
    assert set(taken.change.users.tolist()) == {3}
    with pytest.raises(UnknownInteractions):
        book.take(Requests.of([{"user": "03"}]))


def test_what_is_refused_changes_nothing() -> None:
    data = repeated("max")
    book = EventStore(data)
    with pytest.raises(UnknownInteractions, match="1 of 2"):
        book.take(Requests.of([{"user": "u3"}, {"user": "nobody"}]))
    with pytest.raises(NothingRemains):
        book.take(Requests.of([{"user": f"u{number}"} for number in range(20)]))
    assert len(book) == len(data)
    assert book.interactions().digest() == data.digest()


def test_a_forgotten_id_is_nowhere_in_the_book() -> None:
    book = EventStore(repeated("max"))
    book.take(Requests.of([Request(user="u3")]))
    seen: list[object] = [book]
    reached: set[int] = set()
    while seen:
        each = seen.pop()
        if id(each) in reached or isinstance(each, type):
            continue
        reached.add(id(each))
        assert not (isinstance(each, str) and each == "u3")
        if not callable(each):
            seen += gc.get_referents(each)
