"""The baselines recommend what brute force and other packages do."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import alteraser as ae
from alteraser.data.interactions import Interactions, Side
from alteraser.errors import MismatchError, SettingError
from alteraser.measure import baselines
from alteraser.measure.baselines import ItemKNN, MostPopular, nearest_cosines
from alteraser.measure.ranking import top_k


@pytest.fixture(scope="module")
def data(random_data: Any) -> Interactions:
    made: Interactions = random_data(40, 25, density=0.2, confidences=True, empty=True)
    return made


def cosines(has: Any) -> Any:
    """All cosines between columns but those with themselves, column pair by column pair."""
    n = has.shape[1]
    found = np.zeros((n, n))
    for one in range(n):
        for other in range(n):
            norm = np.sqrt(has[:, one].sum() * has[:, other].sum())
            if one != other and norm:
                found[one, other] = (has[:, one] & has[:, other]).sum() / norm
    return found


def test_most_popular_counts_users(data: Interactions, dense: Any) -> None:
    has, _ = dense(data)
    wanted = sorted(range(25), key=lambda item: (-has[:, item].sum(), item))
    lists = top_k(MostPopular.of(data), np.array([3, 39]), 25)
    assert lists.tolist() == [wanted, wanted]


@pytest.mark.parametrize("n_neighbours", [3, 100])
@pytest.mark.parametrize("block", [1, 60, 2**22])
def test_item_knn_sums_the_cosines_of_the_nearest(
    data: Interactions, dense: Any, monkeypatch: pytest.MonkeyPatch, n_neighbours: int, block: int
) -> None:
    monkeypatch.setattr(baselines, "BLOCK_COSINES", block)
    has, _ = dense(data)
    nearest = cosines(has)
    for row in nearest:
        row[np.argsort(-row, kind="stable")[n_neighbours:]] = 0
    model = ItemKNN.of(data, n_neighbours=n_neighbours)
    users = np.array([7, 0, 38, 7])
    scores = model.scores(users).numpy()
    np.testing.assert_allclose(scores, has[users] @ nearest.T, atol=1e-8)
    items = np.array([4, 4, 0, 23])
    np.testing.assert_allclose(model.pair_scores(users, items), scores[np.arange(4), items], rtol=1e-12)


def test_without_neighbours_the_most_popular_follow(build: Any) -> None:
    """User 0 has item 0, which nobody else has together with anything; user 4 has nothing at all."""
    has = np.zeros((5, 5), dtype=bool)
    has[0, 0] = has[1:4, 3] = has[2:4, 2] = has[3, 4] = True
    data = build(has)
    lists = top_k(ItemKNN.of(data), np.array([0, 4]), 4, exclude=data.by(Side.USERS))
    assert lists[0].tolist() == [3, 2, 4, 1]
    assert lists[1].tolist() == [3, 2, 0, 4]


def test_neighbours_are_those_of_implicit() -> None:
    nearest = pytest.importorskip("implicit.nearest_neighbours")
    data = ae.load_dataset("synthetic")
    by_user = data.by(Side.USERS)
    has = sp.csr_matrix(
        (np.ones(by_user.n_entries), by_user.columns, by_user.starts), (data.n_users, data.n_items)
    )
    theirs = nearest.CosineRecommender(K=21, num_threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it converts its own matrix
        theirs.fit(has, show_progress=False)
    ours = nearest_cosines(sp.csr_array(has), 20)
    for item in range(0, data.n_items, 17):
        known = np.sort(theirs.similarity[item].data)[::-1][1:21]  # without the item itself
        np.testing.assert_allclose(np.sort(ours[[item]].data)[::-1][: len(known)], known, rtol=1e-6)


def test_other_data_and_no_neighbours_are_refused(data: Interactions, random_data: Any) -> None:
    for model in (MostPopular.of(data), ItemKNN.of(data)):
        model.check_belongs(data)
        with pytest.raises(MismatchError, match="40 users and 25 items"):
            model.check_belongs(random_data(40, 24))
    with pytest.raises(SettingError, match="n_neighbours is 0"):
        ItemKNN.of(data, n_neighbours=0)
