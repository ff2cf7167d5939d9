"""The step for h: it never raises the loss, keeps h at root mean square 1 and finds the best h."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

from alteraser.models.enmf import ENMF
from alteraser.models.objective import Objective


def rms(h: torch.Tensor) -> float:
    return float(h.double().square().mean().sqrt())


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("scale", [0.1, 0.5, 2.0])
def test_the_step_never_raises_the_loss_and_keeps_the_scale_of_h(
    seed: int, dtype: torch.dtype, scale: float, random_data: Any, small_model: Any
) -> None:
    data = random_data(seed=seed, confidences=True, empty=True)
    objective = Objective(w0=0.3, l2=0.05, user_activity=0.3, item_popularity=0.3)
    model = small_model(data, enmf=True, seed=seed, dtype=dtype, scale=scale, objective=objective)
    solved = model.solve_shared(data)
    assert solved.loss(data) <= model.loss(data)
    assert rms(solved.h) == pytest.approx(1, rel=1e-6)
    assert solved.dtype == dtype


def test_on_planted_data_the_step_finds_h(build: Any) -> None:
    """Users of two kinds, each with the items of its kind; rows are right, but h has one dimension reversed."""
    kinds = np.arange(12) % 2
    data = build(kinds[:, None] == (np.arange(10) % 2)[None, :])
    users = torch.eye(2, dtype=torch.float64)[torch.from_numpy(kinds)]
    items = torch.eye(2, dtype=torch.float64)[torch.arange(10) % 2]
    objective = Objective(w0=0.5, l2=1e-3, l2_scaling=0.0)
    model = ENMF(users, items, objective, torch.tensor([1.0, -1.0], dtype=torch.float64))
    solved = model.solve_shared(data)
    # Every score is then 1 or 0 but for a shade that the penalty is worth: hardly more than the penalty is left.
    assert 0.999 * 1e-3 * 22 < solved.loss(data) < 1e-3 * 22
    torch.testing.assert_close(solved.h, torch.ones(2, dtype=torch.float64))
    assert model.loss(data) > 100


@pytest.mark.parametrize("l2", [1e-9, 0.01, 0.05])
def test_the_h_found_is_the_best(l2: float, random_data: Any, small_model: Any, dense_loss: Any) -> None:
    """Against a general minimiser over an h of any norm, its scale absorbed by both tables, on the dense loss."""
    data = random_data(confidences=True)
    objective = Objective(w0=0.3, l2=l2, l2_scaling=0.5)
    model = small_model(data, enmf=True, objective=objective)

    def loss(h: NDArray[np.float64]) -> float:
        root = float(np.linalg.norm(h) / model.dim**0.5) ** 0.5
        return float(dense_loss(data, objective, model.users * root, model.items * root, torch.from_numpy(h)))

    found = minimize(loss, model.h.numpy(), method="BFGS", options={"gtol": 1e-8})
    solved = model.solve_shared(data)
    assert solved.loss(data) < model.loss(data)
    assert solved.loss(data) <= float(found.fun) * (1 + 1e-9)
    again = solved.solve_shared(data)
    assert again.loss(data) == pytest.approx(solved.loss(data), rel=1e-10)


def test_a_step_that_rounding_makes_worse_is_not_taken(build: Any, dense_loss: Any) -> None:
    """Every score is 1, the difference of large numbers: the best h gains a little, rounding it loses far more."""
    data = build(np.ones((10, 8), dtype=bool))
    objective = Objective(w0=0.0, l2=1e-14, l2_scaling=0.0)
    large = torch.from_numpy(np.random.default_rng(0).integers(-100_000, 100_000, 10)).float()
    users, items = torch.stack([large, 3 * large - 1], dim=1), torch.tensor([[3.0, 1.0]]).repeat(8, 1)
    model = ENMF(users, items, objective, torch.tensor([1.0, -1.0]))
    double = model.with_parameters({name: value.double() for name, value in model.parameters().items()})
    best = double.solve_shared(data)
    rounded = [value.float().double() for value in best.parameters().values()]
    before, gained, lost = (
        float(dense_loss(data, objective, *values))
        for values in (double.parameters().values(), best.parameters().values(), rounded)
    )
    assert gained < before < 0.5 * lost
    solved = model.solve_shared(data)
    for name, value in model.parameters().items():
        assert torch.equal(solved.parameters()[name], value), name


def test_nothing_to_gain_is_nothing_changed(random_data: Any, small_model: Any) -> None:
    data = random_data()
    solved = small_model(data, enmf=True).solve_shared(data)
    zero = solved.with_parameters({**solved.parameters(), "users": torch.zeros_like(solved.users)})
    assert zero.solve_shared(data) is zero


def test_mf_has_no_other_parameters(random_data: Any, small_model: Any) -> None:
    data = random_data()
    model = small_model(data)
    assert model.solve_shared(data) is model
