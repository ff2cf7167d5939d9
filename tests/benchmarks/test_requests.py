"""What is computed of one user's requests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from alteraser.data.interactions import Interactions
from alteraser.models.enmf import ENMF
from alteraser.models.mf import MF
from alteraser.models.objective import Objective
from alteraser.train.named import TO_THE_OPTIMUM
from benchmarks.generated import generated
from benchmarks.requests import half_of, speed_ups
from benchmarks.retraining import fastest_retraining
from studies.retrainings import TRAINERS, fresh_rows


def test_a_speed_up_is_a_retraining_over_the_median_request_of_its_round() -> None:
    seconds = [0.01, 0.02, 5.0, 0.1, 0.2, 0.3]
    assert speed_ups(seconds, [2.0, 4.0]) == pytest.approx([100.0, 20.0])


def test_requests_that_do_not_divide_evenly_go_to_the_first_rounds() -> None:
    assert speed_ups([1.0, 3.0, 2.0], [4.0, 4.0]) == pytest.approx([2.0, 2.0])


def test_half_a_history_is_the_users_own(random_data: Callable[..., Interactions]) -> None:
    data = random_data(20, 15, seed=1)
    for user in range(5):
        mask = half_of(data, user, np.random.default_rng(0)).match(data).mask
        assert set(data.users[mask]) == {user}
        assert mask.sum() == (data.users == user).sum() // 2


def test_the_rival_is_the_quickest_retraining_that_gets_to_the_loss() -> None:
    rng = np.random.default_rng(0)
    data = generated(60_000, rng)
    start = MF.sized_for(data, dim=8, objective=Objective(w0=0.1, l2=0.03), rng=rng)
    optimum = TO_THE_OPTIMUM.train(start, data, rng=None).model
    goal = optimum.loss(data) * 1.001
    found = fastest_retraining(optimum, data, goal, rng)
    assert set(found["tried"]) == set(TRAINERS)
    there = {name: each for name, each in found["tried"].items() if each["loss"] <= goal}
    assert found["reached"]
    assert found["rival"] == min(there, key=lambda name: there[name]["seconds"])
    assert found["seconds"] == there[found["rival"]]["seconds"]
    beyond = fastest_retraining(optimum, data, 0.5 * goal, rng, max_passes=5)
    assert not beyond["reached"]


def test_new_rows_keep_what_belongs_to_no_row(random_data: Callable[..., Interactions]) -> None:
    data = random_data(20, 15, seed=1)
    model = ENMF.sized_for(data, dim=4, rng=np.random.default_rng(0))
    tables = model.parameters()
    trained = model.with_parameters({**tables, "eta": 2 * tables["eta"] + 1})
    fresh = fresh_rows(trained, np.random.default_rng(1))
    assert torch.equal(fresh.parameters()["eta"], trained.parameters()["eta"])
    assert not torch.equal(fresh.parameters()["users"], trained.parameters()["users"])
