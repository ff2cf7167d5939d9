"""Lists and their quality against brute-force definitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alteraser.data.interactions import Side
from alteraser.measure import ranking
from alteraser.models.mf import MF
from alteraser.models.objective import Objective


def scored(scores: Any) -> MF:
    """A model that gives exactly these scores."""
    table = torch.tensor(scores, dtype=torch.float64)
    return MF(table, torch.eye(table.shape[1], dtype=torch.float64), Objective(w0=0.3, l2=0.01))


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 12))
def test_lists_hold_the_best_that_is_left(seed: int, k: int, build: Any) -> None:
    """Scores are few whole numbers, so that ties abound; they go to the lower row."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, (6, 9))
    seen = rng.random((6, 9)) < 0.5
    gone = np.flatnonzero(rng.random(9) < 0.2)
    users = rng.permutation(6)[:4]
    exclude = build(seen).by(Side.USERS)
    found = ranking.top_k(scored(scores), users, k, exclude=exclude, unavailable=gone)
    assert found.shape == (4, k)
    for place, user in enumerate(users):
        left = [item for item in range(9) if not seen[user, item] and item not in gone]
        best = sorted(left, key=lambda item: (-scores[user, item], item))[:k]
        assert found[place].tolist() == best + [-1] * (k - len(best))


def test_lists_of_more_users_than_a_block_holds() -> None:
    scores = np.random.default_rng(0).normal(size=(1300, 5))
    users = np.arange(1300)[::-1].copy()
    np.testing.assert_array_equal(
        ranking.top_k(scored(scores), users, 5), np.argsort(-scores[users], axis=1, kind="stable")
    )


def test_asking_for_lists_changes_neither_model_nor_scores() -> None:
    model = scored([[3.0, 2.0, 1.0]])
    before = model.users.clone()
    ranking.top_k(model, np.array([0]), 2, unavailable=np.array([0]))
    assert torch.equal(model.users, before)


def test_nobody_asks_for_nothing() -> None:
    assert ranking.top_k(scored([[1.0]]), np.array([], dtype=np.int64), 3).shape == (0, 3)


def brute_force(listed: list[int], relevant: set[int], k: int) -> dict[str, float]:
    top = listed[:k]
    gain = sum(1 / math.log2(place + 1) for place, item in enumerate(top, start=1) if item in relevant)
    ideal = sum(1 / math.log2(place + 1) for place in range(1, min(k, len(relevant)) + 1))
    first = next((place for place, item in enumerate(top, start=1) if item in relevant), None)
    return {
        "recall": sum(item in relevant for item in top) / len(relevant),
        "ndcg": gain / ideal,
        "hit_rate": float(first is not None),
        "mrr": 0.0 if first is None else 1 / first,
    }


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 8))
def test_measures_are_those_of_their_definitions(seed: int, k: int, build: Any) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.random((5, 10)) < 0.3
    matrix[np.arange(5), rng.integers(0, 10, 5)] = True
    relevant = build(matrix).by(Side.USERS)
    users = rng.permutation(5)
    lists = np.array([rng.permutation(10)[:8] for _ in users])
    lists[:, 8 - rng.integers(0, 3) :] = -1
    found, n_relevant = ranking.hits(lists, users, relevant), relevant.counts[users]
    results = {
        "recall": ranking.recall(found, n_relevant, k),
        "ndcg": ranking.ndcg(found, n_relevant, k),
        "hit_rate": ranking.hit_rate(found, k),
        "mrr": ranking.mrr(found, k),
    }
    for place, user in enumerate(users):
        wanted = brute_force(lists[place].tolist(), set(np.flatnonzero(matrix[user]).tolist()), k)
        for name, value in wanted.items():
            assert results[name][place] == pytest.approx(value, rel=1e-12), name
    shown = {int(item) for row in lists for item in row[:k]} - {-1}
    assert ranking.coverage(lists, 10, k) == pytest.approx(len(shown) / 10)


def test_a_case_worked_by_hand(build: Any) -> None:
    """Relevant are items 1 and 3; the list shows 0 1 2 3: hits at places 2 and 4."""
    relevant = build(np.array([[0, 1, 0, 1, 0]], dtype=bool)).by(Side.USERS)
    lists, users, n = np.array([[0, 1, 2, 3]]), np.array([0]), np.array([2])
    found = ranking.hits(lists, users, relevant)
    assert found.tolist() == [[False, True, False, True]]
    assert ranking.recall(found, n, 2).tolist() == [0.5]
    assert ranking.recall(found, n, 4).tolist() == [1.0]
    ideal = 1 + 1 / math.log2(3)
    assert ranking.ndcg(found, n, 4)[0] == pytest.approx((1 / math.log2(3) + 1 / math.log2(5)) / ideal)
    assert ranking.ndcg(found, n, 1)[0] == 0
    assert ranking.mrr(found, 4).tolist() == [0.5]
    assert ranking.mrr(found, 1).tolist() == [0.0]
    assert ranking.hit_rate(found, 1).tolist() == [0.0]
    assert ranking.hit_rate(found, 2).tolist() == [1.0]
    assert ranking.coverage(lists, 5, 3) == 0.6


def test_more_relevant_items_than_places_can_still_be_perfect() -> None:
    found, n_relevant = np.ones((1, 2), dtype=bool), np.array([7])
    assert ranking.ndcg(found, n_relevant, 2).tolist() == [1.0]
    assert ranking.recall(found, n_relevant, 2)[0] == pytest.approx(2 / 7)
