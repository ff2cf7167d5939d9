"""Rank-biased overlap against cases worked by hand and Webber's formula; the re-predict score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alteraser.errors import SettingError
from alteraser.measure.agreement import rbo, rbo_extrapolated, re_predict

permutations = st.permutations(list(range(12)))
depths = st.integers(1, 8)
persistences = st.floats(0.05, 0.98)


def lists(*rows: list[int]) -> Any:
    return np.array(rows, dtype=np.int64)


def webber_ext(first: list[int], second: list[int], k: int, p: float) -> float:
    """RBO_ext for two lists of equal length, equation 30 of Webber, Moffat and Zobel (2010):

    X_k/k · p^k + (1 − p)/p · Σ_{d=1}^{k} X_d/d · p^d
    """
    overlap = [len(set(first[:d]) & set(second[:d])) for d in range(1, k + 1)]
    total = sum(x / d * p**d for d, x in enumerate(overlap, start=1))
    return overlap[-1] / k * p**k + (1 - p) / p * total


def truncated(first: list[int], second: list[int], k: int, p: float) -> float:
    """Truncated at k and divided by its maximum."""
    found = best = 0.0
    for d in range(1, k + 1):
        found += p ** (d - 1) * len(set(first[:d]) & set(second[:d])) / d
        best += p ** (d - 1)
    return found / best


def test_cases_worked_by_hand() -> None:
    first = lists([1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 3])
    second = lists([1, 2, 3], [2, 1, 3], [4, 5, 6], [1, 3, 9])
    # Overlaps by depth: 1 1 1; 0 1 1; none; 1, ½, ⅔. Weights at p = ½: 1, ½, ¼, together 1.75.
    wanted = [1, (0 + 0.5 + 0.25) / 1.75, 0, (1 + 0.25 + 0.25 * 2 / 3) / 1.75]
    np.testing.assert_allclose(rbo(first, second, 3, p=0.5), wanted)
    extrapolated = [1, 0.5 * 0.75 + 0.125, 0, 0.5 * (1 + 0.25 + 0.25 * 2 / 3) + 0.125 * 2 / 3]
    np.testing.assert_allclose(rbo_extrapolated(first, second, 3, p=0.5), extrapolated)


@given(permutations, permutations, depths, persistences)
def test_both_forms_are_those_of_their_formulas(
    first: list[int], second: list[int], k: int, p: float
) -> None:
    a, b = lists(first), lists(second)
    assert rbo(a, b, k, p=p)[0] == pytest.approx(truncated(first, second, k, p), rel=1e-10, abs=1e-14)
    assert rbo_extrapolated(a, b, k, p=p)[0] == pytest.approx(
        webber_ext(first, second, k, p), rel=1e-10, abs=1e-14
    )


@given(permutations, permutations, depths, persistences)
def test_it_is_symmetric_and_between_0_and_1(first: list[int], second: list[int], k: int, p: float) -> None:
    a, b = lists(first), lists(second)
    for measure in (rbo, rbo_extrapolated):
        value = measure(a, b, k, p=p)[0]
        assert value == pytest.approx(measure(b, a, k, p=p)[0], abs=1e-15)
        assert -1e-12 <= value <= 1 + 1e-12
        assert measure(a, a, k, p=p)[0] == pytest.approx(1, abs=1e-12)
        assert measure(a, b + 100, k, p=p)[0] == 0


@given(permutations, st.integers(0, 6), st.integers(0, 6), depths, persistences)
def test_agreement_nearer_the_top_counts_more(
    items: list[int], high: int, low: int, k: int, p: float
) -> None:
    """Of two lists that each hold one strange item, the one with it lower down agrees at least as well."""
    high, low = min(high, low, k - 1), min(max(high, low), k - 1)
    at_the_top, below = list(items), list(items)
    at_the_top[high] = below[low] = 99
    a = lists(items)
    for measure in (rbo, rbo_extrapolated):
        better, worse = measure(a, lists(below), k, p=p)[0], measure(a, lists(at_the_top), k, p=p)[0]
        if high < low:
            assert better > worse
        assert better < 1


@given(permutations, st.integers(1, 8), st.integers(1, 12), persistences)
def test_lists_that_end_early_are_compared_to_where_they_end(
    items: list[int], n: int, k: int, p: float
) -> None:
    """-1 stands for nothing more to recommend: it is never shared, and identical lists still give 1."""
    ended = [*items[:n], *[-1] * (12 - n)]
    swapped = [*reversed(items[:n]), *[-1] * (12 - n)]
    for measure in (rbo, rbo_extrapolated):
        assert measure(lists(ended), lists(ended), k, p=p)[0] == pytest.approx(1, abs=1e-12)
        short = measure(lists(ended[:n]), lists(swapped[:n]), min(k, n), p=p)[0]
        assert measure(lists(ended), lists(swapped), k, p=p)[0] == pytest.approx(short, abs=1e-12)
        # One list goes on where the other has ended: the longer one sets the depth.
        if 1 <= n < min(k, 12):
            assert measure(lists(ended), lists(items), k, p=p)[0] < 1


def test_two_empty_lists_are_identical_and_one_empty_list_shares_nothing() -> None:
    nothing, something = lists([-1, -1]), lists([3, -1])
    for measure in (rbo, rbo_extrapolated):
        assert measure(nothing, nothing, 2).tolist() == [1]
        assert measure(nothing, something, 2).tolist() == [0]


def test_rows_are_judged_one_by_one() -> None:
    rng = np.random.default_rng(0)
    first, second = (np.array([rng.permutation(20)[:10] for _ in range(30)]) for _ in range(2))
    together = rbo(first, second, 10)
    apart = [rbo(first[i : i + 1], second[i : i + 1], 10)[0] for i in range(30)]
    np.testing.assert_allclose(together, apart, rtol=1e-14)


@pytest.mark.parametrize(("k", "p"), [(0, 0.9), (4, 0.9), (2, 0.0), (2, 1.0), (2, float("nan")), (2, -0.5)])
def test_depth_and_persistence_out_of_range_are_refused(k: int, p: float) -> None:
    for measure in (rbo, rbo_extrapolated):
        with pytest.raises(SettingError):
            measure(lists([1, 2, 3]), lists([1, 2, 3]), k, p=p)


@settings(deadline=None, max_examples=20)
@given(places=st.lists(st.integers(0, 53), min_size=1, max_size=30))
def test_re_predict_is_the_mean_over_distinct_pairs(
    places: list[int], random_data: Any, small_model: Any
) -> None:
    data = random_data(9, 6, density=1.0)
    assert len(data) == 54
    repeated = type(data)(data.events[places], data.user_vocabulary, data.item_vocabulary)
    model = small_model(data, enmf=True)
    scores = model.scores(np.arange(9)).numpy()
    pairs = {(int(data.users[place]), int(data.items[place])) for place in places}
    wanted = np.mean([scores[pair] for pair in pairs])
    assert re_predict(model, repeated) == pytest.approx(wanted, rel=1e-12)
