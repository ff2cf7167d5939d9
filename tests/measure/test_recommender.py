"""Recommending by ids: the lists are those of the scores, worked out by hand, for any model that scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import alteraser as ae
from alteraser.data.interactions import Side, Vocabulary
from alteraser.measure.recommender import IdRecommender

USERS, ITEMS = [10, 20, None, 40], ["a", "b", None, "d", "e"]
SCORES = np.array([[3, 1, 9, 4, 2], [5, 5, 9, 5, 1], [9, 9, 9, 9, 9], [0, 1, 9, 2, 3]], dtype=np.float64)


@dataclass(frozen=True)
class Popular:
    """The least that a model can be: a table of scores, without vectors."""

    table_of_scores: NDArray[np.float64]

    @property
    def n_users(self) -> int:
        return len(self.table_of_scores)

    @property
    def n_items(self) -> int:
        return len(self.table_of_scores[0])

    def scores(self, users: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(self.table_of_scores[users])

    def pair_scores(self, users: NDArray[Any], items: NDArray[Any]) -> Tensor:
        return torch.from_numpy(self.table_of_scores[users, items])

    def check_belongs(self, data: ae.Interactions) -> None:
        del data


@dataclass(frozen=True)
class WithVectors(Popular):
    vectors: Tensor

    def table(self, side: Side) -> Tensor:
        assert side is Side.ITEMS
        return self.vectors


@pytest.fixture
def popular() -> IdRecommender:
    return IdRecommender(Popular(SCORES), Vocabulary(pl.Series(USERS)), Vocabulary(pl.Series(ITEMS)))


def listed(table: pl.DataFrame) -> list[Any]:
    return table["item_id"].to_list()


def test_one_user_or_many_in_the_order_asked_for(popular: IdRecommender) -> None:
    one = popular.recommend(10, 3)
    assert one.columns == ["user_id", "rank", "item_id", "score"]
    assert one.rows() == [(10, 1, "d", 4.0), (10, 2, "a", 3.0), (10, 3, "e", 2.0)]
    many = popular.recommend([40, 10], 2)
    assert many.rows() == [(40, 1, "e", 3.0), (40, 2, "d", 2.0), *one.rows()[:2]]
    ways: list[Any] = [
        ["40", "10"],
        np.array([40, 10]),
        pl.Series([40, 10]),
        (40.0, "10"),
        [np.int64(40), 10],
    ]
    for same in ways:
        assert popular.recommend(same, 2).equals(many)
    assert popular.recommend("10", 3).equals(popular.recommend(np.int64(10), 3))
    assert listed(popular.recommend(20, 3)) == ["a", "b", "d"]  # ties go to the lower row


def test_what_was_forgotten_is_never_shown(popular: IdRecommender) -> None:
    assert listed(popular.recommend(10, 99)) == ["d", "a", "e", "b"]
    nobody: Any = None
    with pytest.raises(ae.MismatchError):
        popular.recommend([10, nobody])


def test_what_a_user_has_is_left_out_on_whatever_rows_it_is(popular: IdRecommender) -> None:
    frame = pl.DataFrame({"user_id": [10, 10, 40, 77], "item_id": ["d", "zzz", "e", "a"]})
    lists = popular.recommend([10, 40], 2, exclude=ae.interactions(frame))
    assert listed(lists) == ["a", "e", "d", "b"]
    strange = ae.interactions(frame.with_columns(user_id=pl.lit(78)))
    with pytest.raises(ae.MismatchError, match="None of the 4"):
        popular.recommend(10, exclude=strange)


def test_allowed_and_denied_items(popular: IdRecommender) -> None:
    assert listed(popular.recommend(10, allow=["e", "b", "not here"])) == ["e", "b"]
    assert listed(popular.recommend(10, deny=["d", "not here"])) == ["a", "e", "b"]
    assert listed(popular.recommend(10, allow=["e", "b"], deny="e")) == ["b"]
    assert popular.recommend(10, allow="e", deny="e").height == 0
    with pytest.raises(ae.MismatchError, match="None of the 1 items to allow"):
        popular.recommend(10, allow=["secret"])


def test_unknown_ids_are_named_by_their_place(popular: IdRecommender) -> None:
    with pytest.raises(ae.MismatchError, match="The user is not in the model") as one:
        popular.recommend("secret")
    with pytest.raises(
        ae.MismatchError, match=r"1 of 3 users are not in the model \(the first in row 2\)"
    ) as many:
        popular.recommend([10, "secret", 20])
    with pytest.raises(ae.MismatchError, match=r"1 of 1 users in u\.csv"):
        popular.recommend(["secret"], source="u.csv")
    assert "secret" not in f"{one.value} {many.value}"
    for k in (0, -1):
        with pytest.raises(ae.SettingError, match="k is"):
            popular.recommend(10, k)
    with pytest.raises(ae.SettingError, match="No user ids"):
        popular.recommend([])


def test_similar_ones_by_the_cosine_of_their_vectors(popular: IdRecommender) -> None:
    with pytest.raises(ae.SettingError, match="no vectors"):
        popular.similar_items("a")
    vectors = torch.tensor([[1.0, 0.0], [2.0, 2.0], [1.0, 0.0], [0.0, 0.0], [-3.0, 0.1]])
    alike = replace(popular, model=WithVectors(SCORES, vectors)).similar_items(["a", "e"], 9)
    assert alike.columns == ["item_id", "rank", "similar_item_id", "similarity"]
    assert alike["item_id"].to_list() == ["a"] * 3 + ["e"] * 3
    assert alike["similar_item_id"].to_list() == ["b", "d", "e", "d", "b", "a"]
    np.testing.assert_allclose(alike["similarity"].to_numpy()[:3], [2**-0.5, 0, -3 / 9.01**0.5], rtol=1e-6)


@pytest.mark.parametrize("side", Side)
def test_the_dimensions_weigh_in_the_likeness_as_they_do_in_scores(
    side: Side, random_data: Any, small_model: Any
) -> None:
    data = random_data()
    model = small_model(data, enmf=True)
    model = replace(model, eta=torch.tensor([0.2, 1.0, 3.0], dtype=model.dtype))
    recommender = ae.Version.of(model, data).recommender
    ids = data.vocabulary(side).ids.to_list()
    ask = recommender.similar_users if side is Side.USERS else recommender.similar_items
    table = (model.table(side) * model.h).numpy()
    table = table / np.linalg.norm(table, axis=1, keepdims=True)
    cosines = table @ table[2]
    order = [row for row in np.argsort(-cosines) if row != 2]
    found = ask(ids[2], 5)
    assert found.to_series(2).to_list() == [ids[row] for row in order[:5]]
    np.testing.assert_allclose(found["similarity"].to_numpy(), cosines[order[:5]], rtol=1e-12)


def test_many_blocks_are_as_one(random_data: Any, small_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    data = random_data(40, 30)
    recommender = ae.Version.of(small_model(data), data).recommender
    ids = data.item_vocabulary.ids
    whole = recommender.similar_items(ids, 7)
    monkeypatch.setattr("alteraser.measure.recommender.BLOCK_SCORES", 100)
    parts = recommender.similar_items(ids, 7)
    assert parts["similar_item_id"].equals(whole["similar_item_id"])
