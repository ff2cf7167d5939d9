"""`evaluate`: figures worked out by hand, who is judged, and what is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch

import alteraser as ae
from alteraser.errors import MismatchError, SettingError
from alteraser.models.mf import MF
from alteraser.models.objective import Objective

# Users 0 to 2 have items 0, 1 and 2. A model that scores items by number: 5 best, 0 worst.
TRAIN = np.zeros((4, 6), dtype=bool)
TRAIN[[0, 1, 2], [0, 1, 2]] = True


@pytest.fixture
def train(build: Any) -> ae.Interactions:
    made: ae.Interactions = build(TRAIN)
    return made


@pytest.fixture
def model() -> MF:
    items = torch.arange(6.0)[:, None]
    return MF(torch.ones(4, 1), items, Objective(w0=0.3, l2=0.01))


def held_out(build: Any, *pairs: tuple[int, int]) -> ae.Interactions:
    matrix = np.zeros((4, 6), dtype=bool)
    for user, item in pairs:
        matrix[user, item] = True
    made: ae.Interactions = build(matrix)
    return made


def test_figures_are_those_worked_out_by_hand(train: ae.Interactions, model: MF, build: Any) -> None:
    """User 0's list is 5, 4, 3 and user 1's alike; user 3 has no training data and is not judged."""
    test = held_out(build, (0, 4), (0, 1), (1, 2), (3, 5))
    found = ae.evaluate(model, train, test, ks=(2, 5))
    own = found.values["model"]
    assert (found.n_judged, found.n_users, found.n_test, found.n_seen) == (2, 2, 3, 0)
    assert own["recall"] == {2: pytest.approx((1 / 2 + 0) / 2), 5: pytest.approx(1.0)}
    assert own["hit_rate"] == {2: 0.5, 5: 1.0}
    assert own["mrr"] == {2: pytest.approx(1 / 4), 5: pytest.approx((1 / 2 + 1 / 4) / 2)}
    ideal = 1 + 1 / math.log2(3)
    assert own["ndcg"][2] == pytest.approx((1 / math.log2(3) / ideal) / 2)
    assert own["coverage"] == {2: pytest.approx(2 / 6), 5: pytest.approx(1.0)}


def test_baselines_are_made_of_the_training_data(build: Any, model: MF) -> None:
    """Item 3 is most popular; who has item 0 has item 1 as well, but for user 0."""
    matrix = np.zeros((4, 6), dtype=bool)
    matrix[0, 0] = matrix[1, :2] = matrix[2, :2] = matrix[1:, 3] = True
    found = ae.evaluate(model, build(matrix), held_out(build, (0, 1)), ks=(1, 2))
    assert list(found.values) == ["model", "most popular", "item kNN"]
    assert found.values["most popular"]["mrr"] == {1: 0.0, 2: 0.5}
    assert found.values["item kNN"]["mrr"] == {1: 1.0, 2: 1.0}
    assert json.loads(json.dumps(found.to_dict()))["models"]["item kNN"]["mrr"] == {"1": 1.0, "2": 1.0}


def test_what_is_in_the_training_data_is_not_to_be_found(
    train: ae.Interactions, model: MF, build: Any
) -> None:
    found = ae.evaluate(model, train, held_out(build, (0, 0), (0, 5), (1, 5)), ks=(1,))
    assert (found.n_seen, found.n_test, found.values["model"]["recall"][1]) == (1, 2, 1.0)


def test_a_test_part_that_was_trained_on_is_refused(train: ae.Interactions, model: MF, build: Any) -> None:
    with pytest.raises(MismatchError, match="2 of 3 test interactions are in the training data"):
        ae.evaluate(model, train, held_out(build, (0, 0), (1, 1), (1, 5)))


def test_more_users_than_wanted_are_drawn(train: ae.Interactions, model: MF, build: Any) -> None:
    test = held_out(build, (0, 5), (1, 5), (2, 5))
    with pytest.raises(SettingError, match="rng"):
        ae.evaluate(model, train, test, max_users=2)
    found = ae.evaluate(model, train, test, max_users=2, rng=np.random.default_rng(0))
    assert (found.n_judged, found.n_users) == (2, 3)


def test_bad_input_is_refused(train: ae.Interactions, model: MF, build: Any, random_data: Any) -> None:
    test = held_out(build, (0, 5))
    with pytest.raises(MismatchError, match="None of the 1 test interactions is of a user"):
        ae.evaluate(model, train, held_out(build, (3, 5)))
    with pytest.raises(MismatchError, match="does not number"):
        ae.evaluate(model, train, build(TRAIN, ids="x"))
    with pytest.raises(MismatchError):
        ae.evaluate(model, random_data(5, 6), test)
    for settings in ({"ks": ()}, {"ks": (0, 3)}, {"max_users": 0}):
        with pytest.raises(SettingError):
            ae.evaluate(model, train, test, **settings)
