"""Generated data is as large, and as uneven, as it says."""

from __future__ import annotations

import numpy as np
import pytest

from alteraser.data.interactions import Side
from benchmarks.generated import ITEMS_PER_USER, MEAN_HISTORY, generated


@pytest.mark.parametrize(
    ("asked", "least", "most"), [(100_000, 0.45, 0.6), (160_000, 0.5, 0.7), (1_000_000, 0.75, 0.9)]
)
def test_as_many_interactions_are_left_as_is_said(asked: int, least: float, most: float) -> None:
    data = generated(asked, np.random.default_rng(0))
    assert least * asked < len(data) < most * asked
    assert data.n_users == asked // MEAN_HISTORY
    assert data.n_items == int(data.n_users * ITEMS_PER_USER)
    assert data.by(Side.USERS).n_entries == len(data), "a pair came twice"
    assert data.by(Side.USERS).counts.min() >= 1


def test_the_same_seed_gives_the_same_data() -> None:
    first, second = (generated(30_000, np.random.default_rng(3)) for _ in range(2))
    assert first.events.equals(second.events)
    assert not first.events.equals(generated(30_000, np.random.default_rng(4)).events)


def test_few_items_have_most_of_the_interactions() -> None:
    counts = np.sort(generated(300_000, np.random.default_rng(0)).by(Side.ITEMS).counts)[::-1]
    assert counts[: len(counts) // 5].sum() > 0.4 * counts.sum()
