"""Splits keep pairs together and the vocabulary whole; simulated forget sets are those of the paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alteraser.data.interactions import Interactions, Side
from alteraser.data.split import holdout, inject_noise, leave_last_out, privacy_requests, split_by_time
from alteraser.errors import DataError, SettingError

EVENTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=60)


def made(events: list[tuple[int, int]], times: list[Any] | None = None) -> Interactions:
    return Interactions.from_columns(
        pl.Series([user for user, _ in events]),
        pl.Series([item for _, item in events]),
        times=None if times is None else pl.Series(times),
    )


def pairs_of(data: Interactions) -> set[tuple[Any, Any]]:
    return set(data.to_frame().select("user_id", "item_id").iter_rows())


def drawn(n_users: int = 100, n_items: int = 60) -> Interactions:
    rng = np.random.default_rng(3)
    users, items = np.nonzero(rng.random((n_users, n_items)) < 0.3)
    return Interactions.from_columns(
        pl.Series(users),
        pl.Series(items),
        pl.Series(rng.random(len(users))),
        pl.Series(np.arange(len(users))),
    )


@settings(deadline=None)
@given(EVENTS, st.floats(0.05, 0.95), st.integers(0, 100))
def test_a_holdout_is_a_rounded_share_of_each_users_pairs(
    events: list[tuple[int, int]], fraction: float, seed: int
) -> None:
    data = made(events)
    counts = data.by(Side.USERS).counts
    expected = [min(int(np.floor(fraction * n + 0.5)), n - 1) for n in counts]
    if not any(expected):
        with pytest.raises(DataError, match="empty"):
            holdout(data, fraction=fraction, rng=np.random.default_rng(seed))
        return
    train, test = holdout(data, fraction=fraction, rng=np.random.default_rng(seed))
    assert test.by(Side.USERS).counts.tolist() == expected
    assert pairs_of(train) | pairs_of(test) == set(events)
    assert not pairs_of(train) & pairs_of(test)
    assert len(train) + len(test) == len(events)
    assert train.user_vocabulary is test.user_vocabulary is data.user_vocabulary
    assert train.by(Side.USERS).counts.min() >= 1


def test_a_holdout_draws_every_pair_alike_and_repeats_for_a_seed() -> None:
    data = made([(0, item) for item in range(5)])
    times_held = np.zeros(5)
    for seed in range(1000):
        times_held[holdout(data, fraction=0.4, rng=np.random.default_rng(seed))[1].items] += 1
    assert times_held.sum() == 2000
    assert np.abs(times_held - 400).max() < 80  # five standard deviations
    again = [holdout(data, rng=np.random.default_rng(1))[1].items.tolist() for _ in range(2)]
    assert again[0] == again[1]


def test_time_splits_take_the_last_and_nulls_are_oldest() -> None:
    events = [(1, 10), (1, 11), (1, 12), (1, 13), (1, 14), (2, 10), (1, 10)]
    data = made(events, [5, None, 9, 9, 1, 3, 2])
    train, test = split_by_time(data, fraction=0.4)
    assert pairs_of(test) == {(1, 12), (1, 13)}  # the single pair of user 2 stays
    assert pairs_of(train) == {(1, 10), (1, 11), (1, 14), (2, 10)}
    assert pairs_of(leave_last_out(data)[1]) == {(1, 13)}  # a tie goes to the later event
    assert pairs_of(leave_last_out(data, n=4)[0]) == {(1, 11), (2, 10)}
    assert pairs_of(leave_last_out(data, n=9)[0]) == {(1, 11), (2, 10)}


def test_a_repeated_pair_goes_where_it_was_seen_last() -> None:
    train, test = leave_last_out(made([(1, 10), (1, 11), (1, 10)], [1, 2, 3]))
    assert (pairs_of(train), pairs_of(test), len(test)) == ({(1, 11)}, {(1, 10)}, 2)


def test_splits_refuse_what_they_cannot_do() -> None:
    rng = np.random.default_rng(0)
    data = made([(1, 1), (1, 2)])
    for fraction in (0, 1, -0.5, float("nan")):
        with pytest.raises(SettingError, match="fraction"):
            holdout(data, fraction=fraction, rng=rng)
    with pytest.raises(SettingError, match="n is 0"):
        leave_last_out(made([(1, 1), (1, 2)], [1, 2]), n=0)
    for split in (split_by_time, leave_last_out):
        with pytest.raises(DataError, match="no times"):
            split(data)


def test_privacy_requests_ask_for_a_rounded_half() -> None:
    data = drawn()
    requests = privacy_requests(data, rng=np.random.default_rng(0))
    match = requests.match(data)
    asked = data.only(match.mask)
    counts, lost = data.by(Side.USERS).counts, asked.by(Side.USERS).counts
    users = np.flatnonzero(lost)
    assert len(users) == 64
    assert lost[users].tolist() == [(n + 1) // 2 for n in counts[users]]
    assert match.counts.n_honoured == len(requests) == lost.sum()
    assert match.counts.n_repeated == 0


def test_noise_is_new_pairs_half_as_many_and_the_requests_are_exactly_these() -> None:
    full, test = holdout(drawn(), rng=np.random.default_rng(1))
    noisy, requests = inject_noise(full, rng=np.random.default_rng(0), avoid=test)
    noise = pairs_of(noisy) - pairs_of(full)
    assert len(noisy) - len(full) == len(noise) == len(requests)
    assert not noise & pairs_of(test)
    assert noisy.user_vocabulary is full.user_vocabulary
    match = requests.match(noisy)
    assert pairs_of(noisy.only(match.mask)) == noise
    assert noisy.without(match.mask).events.equals(full.events)
    added = noisy.only(match.mask)
    users = np.flatnonzero(added.by(Side.USERS).counts)
    assert len(users) == 64
    n_own, n_added = full.by(Side.USERS).counts[users], added.by(Side.USERS).counts[users]
    assert n_added.tolist() == [(n + 1) // 2 for n in n_own]
    assert added.times is not None
    assert added.times.null_count() == 0


def test_noise_is_drawn_uniformly_from_what_the_user_has_not() -> None:
    data = made([(0, 0), (0, 1), *((1, item) for item in range(6))])
    hits = np.zeros(6)
    for seed in range(800):
        noisy, _ = inject_noise(data, n_users=1, rng=np.random.default_rng(seed))
        hits[noisy.items[len(data) :]] += 1
    assert hits[:2].sum() == 0
    assert np.abs(hits[2:] - 200).max() < 62  # five standard deviations


def test_too_few_users_are_an_error() -> None:
    rng = np.random.default_rng(0)
    data = made([(0, 0), (0, 1), (1, 0)])
    with pytest.raises(DataError, match="2 users with at least two interactions are wanted; the data has 1"):
        privacy_requests(data, n_users=2, rng=rng)
    with pytest.raises(DataError, match="the data has 0"):
        inject_noise(data, n_users=1, rng=rng)  # user 0 has every item
    with pytest.raises(SettingError, match="n_users"):
        privacy_requests(data, n_users=0, rng=rng)
