"""Retraining: from new rows in an order of its own, or on from where the original stands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from alteraser.data.interactions import Interactions
from alteraser.data.requests import Requests
from alteraser.models.objective import Objective
from alteraser.train.adamw import AdamW
from alteraser.train.als import ALS
from alteraser.unlearn.retrain import Retrain, WarmStart

OBJECTIVE = Objective(w0=0.3, l2=0.1, l2_scaling=0.5)
REQUESTS = Requests.of([{"user": "u2"}, {"item": "i5"}])


@pytest.fixture(scope="module")
def full(random_data: Any) -> Interactions:
    data: Interactions = random_data(15, 10, density=0.35)
    return data


@pytest.fixture(scope="module")
def original(full: Interactions, small_model: Any) -> Any:
    return small_model(full, dim=2, objective=OBJECTIVE)


def test_a_warm_start_solves_its_first_users_against_the_original_items(
    full: Interactions, original: Any, dense_rows: Any, transposed: Any
) -> None:
    one_pass = ALS(max_passes=1, acceleration=None)
    outcome = WarmStart(np.random.default_rng(0), one_pass).forget(original, full, REQUESTS)
    remain, h = full.without((full.users == 2) | (full.items == 5)), np.ones(2)
    seen = original.items.numpy().copy()
    seen[5] = 0  # nobody has it any more
    users = dense_rows(remain, OBJECTIVE, seen, h)
    items = dense_rows(transposed(remain), OBJECTIVE, users, h)
    np.testing.assert_allclose(outcome.model.users.numpy(), users, rtol=0, atol=1e-10)
    np.testing.assert_allclose(outcome.model.items.numpy(), items, rtol=0, atol=1e-10)


def test_a_warm_start_with_adamw_takes_its_first_step_from_the_original(
    full: Interactions, original: Any
) -> None:
    """That step moves every number by the learning rate, one way or the other."""
    one_step = AdamW(learning_rate=1e-3, max_epochs=1, batch_users=full.n_users)
    trained = WarmStart(np.random.default_rng(0), one_step).forget(original, full, REQUESTS).model
    for before, after, forgotten in ((original.users, trained.users, 2), (original.items, trained.items, 5)):
        moved = (after - before).abs()
        moved[forgotten] = 1e-3  # a row of zeros now
        torch.testing.assert_close(moved, torch.full_like(moved, 1e-3), rtol=1e-4, atol=0)


def test_another_order_is_another_model_from_the_same_new_rows(full: Interactions, original: Any) -> None:
    """This is what Retrain* is to Retrain. In one batch there is no order: then both are the same."""

    def retrained(order: int, batch_users: int) -> Any:
        trainer = AdamW(max_epochs=3, batch_users=batch_users)
        retrain = Retrain(np.random.default_rng(1), trainer, order=np.random.default_rng(order))
        return retrain.forget(original, full, REQUESTS).model

    first, again, other = (retrained(order, batch_users=4) for order in (2, 2, 3))
    assert torch.equal(first.users, again.users)
    assert torch.equal(first.items, again.items)
    assert (first.items - other.items).abs().max() > 1e-3
    torch.testing.assert_close(retrained(2, full.n_users).items, retrained(3, full.n_users).items)
