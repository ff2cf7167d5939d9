"""Loss, gradients and Hessians in closed form against autograd of a dense loss written from its definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from alteraser.data.interactions import Interactions, Side
from alteraser.models.enmf import ENMF
from alteraser.models.objective import Objective

WEIGHTINGS = {
    "uniform": {},
    "popularity": {"item_popularity": 0.5},
    "activity": {"user_activity": 0.7},
    "both": {"user_activity": 0.4, "item_popularity": 1.3},
    "constants": {"c_users": 1.5, "c_items": 0.25},
}
MEANS = {"mean_user_count": 3.5, "mean_item_count": 4.5}

every_objective = pytest.mark.parametrize(
    "objective",
    [
        pytest.param(
            Objective(w0=w0, l2=0.2, l2_scaling=scaling, **weighting, **MEANS), id=f"{name}-{w0}-{scaling}"
        )
        for name, weighting in WEIGHTINGS.items()
        for w0 in (0.3, 2.0)  # with 2 most confidences are below what a missing entry weighs
        for scaling in (0.0, 1.0)
    ],
)
both_kinds = pytest.mark.parametrize("enmf", [False, True], ids=["mf", "enmf"])
both_confidences = pytest.mark.parametrize("confidences", [False, True], ids=["plain", "confidences"])
both_sides = pytest.mark.parametrize("side", list(Side), ids=lambda side: side.value)

DataFactory = Callable[..., Interactions]


def relative(found: Tensor, wanted: Tensor) -> float:
    return float((found - wanted).norm() / wanted.norm())


def leaves(model: Any) -> dict[str, Tensor]:
    return {name: value.clone().requires_grad_() for name, value in model.parameters().items()}


@every_objective
@both_kinds
@both_confidences
def test_gradient_is_that_of_the_dense_loss(
    objective: Objective,
    enmf: bool,
    confidences: bool,
    random_data: DataFactory,
    small_model: Any,
    dense_loss: Any,
) -> None:
    data = random_data(confidences=confidences, empty=True)
    model = small_model(data, dim=4, objective=objective, enmf=enmf)
    points = leaves(model)
    loss = dense_loss(data, objective, *points.values())
    wanted = dict(zip(points, torch.autograd.grad(loss, list(points.values())), strict=True))

    found_loss, found = model.batch_gradients(np.arange(data.n_users), data, model.weigh(data))

    assert found_loss == pytest.approx(loss.item(), rel=1e-12)
    assert set(found) == set(wanted)
    for name, gradient in wanted.items():
        assert relative(found[name], gradient) < 1e-8, name
    norm = float(torch.cat([wanted["users"], wanted["items"]]).norm())
    assert model.gradient_norm(data) == pytest.approx(norm, rel=1e-8)


@every_objective
@both_kinds
@both_sides
def test_row_problem_has_the_gradient_and_hessian_of_the_dense_loss(
    objective: Objective, enmf: bool, side: Side, random_data: DataFactory, small_model: Any, dense_loss: Any
) -> None:
    data = random_data(confidences=True, empty=True)
    model = small_model(data, dim=4, objective=objective, enmf=enmf)
    rows = np.array([3, 0, len(model.table(side)) - 1, 5])  # the one before the last has no interactions
    problem = model.row_problems(side, data).block(rows)
    x = model.table(side)[torch.from_numpy(rows)]

    def of_rows(vectors: Tensor) -> Tensor:
        parameters = dict(model.parameters())
        parameters[side.value] = parameters[side.value].index_copy(0, torch.from_numpy(rows), vectors)
        loss: Tensor = dense_loss(data, objective, *parameters.values())
        return loss

    point = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(of_rows(point), point, create_graph=True)
    second = [torch.autograd.grad(slope, point, retain_graph=True)[0] for slope in gradient.flatten()]
    gradient = gradient.detach()
    # Rows of one side do not touch each other: of all second derivatives only those within a row are not zero.
    hessian = torch.stack(second).reshape(*x.shape, *x.shape)
    blocks = torch.stack([hessian[i, :, i, :] for i in range(len(rows))])
    assert float(hessian.square().sum()) == pytest.approx(float(blocks.square().sum()), rel=1e-14)
    vectors = torch.from_numpy(np.random.default_rng(1).normal(size=x.shape))
    product = torch.einsum("bij,bj->bi", blocks, vectors)

    here = problem.expand(x)
    assert relative(here.gradient, gradient) < 1e-8
    assert relative(here.product(vectors), product) < 1e-8
    assert relative(problem.hessian(x), blocks) < 1e-8
    # The general way of RowProblem, which builds the Hessian from products, must say the same.
    assert relative(super(type(problem), problem).hessian(x), blocks) < 1e-8
    # The values of the functions differ from L by what does not depend on the rows.
    other = x + vectors
    change = float(problem.value(other).sum() - problem.value(x).sum())
    assert change == pytest.approx(float(of_rows(other) - of_rows(x)), rel=1e-8)


def test_the_hessian_is_right_when_rows_hold_thousands_of_entries(
    build: DataFactory, small_model: Any, missing_and_l2: Any
) -> None:
    matrix = np.random.default_rng(0).random((3, 6000)) < 0.9
    data = build(matrix)
    model = small_model(data, dim=2)
    missing, l2, _ = missing_and_l2(data, model.objective)
    items = model.items.numpy()
    confidence = np.where(matrix, 1.0, missing)
    wanted = 2 * (np.einsum("uv,vi,vj->uij", confidence, items, items) + l2[:, None, None] * np.eye(2))
    found = model.row_problems(Side.USERS, data).block(np.arange(3)).hessian(model.users)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-10)


@every_objective
@both_kinds
def test_loss_is_the_sum_over_all_pairs(
    objective: Objective,
    enmf: bool,
    random_data: DataFactory,
    small_model: Any,
    dense: Any,
    missing_and_l2: Any,
) -> None:
    data = random_data(6, 5, confidences=True, empty=True)
    model = small_model(data, objective=objective, enmf=enmf)
    positive, weights = dense(data)
    missing, user_l2, item_l2 = missing_and_l2(data, objective)
    p, q, h = model.users.tolist(), model.items.tolist(), model.h.tolist()
    total = 0.0
    for u in range(data.n_users):
        for v in range(data.n_items):
            score = sum(h[j] * p[u][j] * q[v][j] for j in range(model.dim))
            total += weights[u, v] * (1 - score) ** 2 if positive[u, v] else missing[u, v] * score**2
    total += sum(user_l2[u] * sum(x * x for x in p[u]) for u in range(data.n_users))
    total += sum(item_l2[v] * sum(x * x for x in q[v]) for v in range(data.n_items))
    assert model.loss(data) == pytest.approx(total, rel=1e-12)
    single = model.with_parameters({name: value.float() for name, value in model.parameters().items()})
    assert single.loss(data) == pytest.approx(total, rel=1e-5)


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([0.0, 0.01, 1.0, 30.0]),
    w0=st.sampled_from([0.0, 0.1, 1.0, 50.0]),
    confidences=st.booleans(),
    single=st.booleans(),
)
def test_loss_is_never_negative(
    seed: int,
    scale: float,
    w0: float,
    confidences: bool,
    single: bool,
    random_data: DataFactory,
    small_model: Any,
) -> None:
    data = random_data(5, 4, seed=seed, density=0.8, confidences=confidences)
    dtype = torch.float32 if single else torch.float64
    objective = Objective(w0=w0, l2=1e-3, item_popularity=0.5, mean_item_count=2.0)
    assert small_model(data, objective=objective, seed=seed, scale=scale, dtype=dtype).loss(data) >= 0


def test_loss_of_a_zero_model_is_the_weight_of_all_positives(
    random_data: DataFactory, small_model: Any, dense: Any
) -> None:
    data = random_data(confidences=True)
    assert small_model(data, scale=0.0).loss(data) == pytest.approx(dense(data)[1].sum(), rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n_parts=st.integers(1, 12), enmf=st.booleans(), single=st.booleans())
def test_batches_sum_to_the_whole(
    seed: int, n_parts: int, enmf: bool, single: bool, random_data: DataFactory, small_model: Any
) -> None:
    """Whatever the partition of the users, nothing is lost or counted twice, the items' penalty included."""
    data = random_data(seed=seed, confidences=True, empty=True)
    dtype, tolerance = (torch.float32, 2e-5) if single else (torch.float64, 1e-10)
    objective = Objective(w0=0.4, l2=0.3, l2_scaling=0.5, user_activity=0.5, item_popularity=0.5)
    model = small_model(data, objective=objective, enmf=enmf, seed=seed, dtype=dtype)
    weights = model.weigh(data)
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.integers(0, data.n_users + 1, n_parts - 1))
    parts = [part for part in np.split(rng.permutation(data.n_users), cuts) if len(part)]
    whole_loss, whole = model.batch_gradients(np.arange(data.n_users), data, weights)

    batches = [model.batch_gradients(part, data, weights) for part in parts]

    assert sum(loss for loss, _ in batches) == pytest.approx(whole_loss, rel=tolerance)
    assert whole_loss == pytest.approx(model.loss(data), rel=tolerance)
    for name in whole:
        summed = torch.stack([gradients[name] for _, gradients in batches]).sum(0)
        assert relative(summed, whole[name]) < tolerance, name


def test_moving_eta_along_itself_changes_nothing(random_data: DataFactory, small_model: Any) -> None:
    data = random_data()
    model = small_model(data, enmf=True)
    assert isinstance(model, ENMF)
    longer = model.with_parameters({**model.parameters(), "eta": 7 * model.eta})
    assert longer.loss(data) == pytest.approx(model.loss(data), rel=1e-14)
    _, gradients = model.batch_gradients(np.arange(data.n_users), data, model.weigh(data))
    assert abs(float(gradients["eta"] @ model.eta)) < 1e-10 * float(
        gradients["eta"].norm() * model.eta.norm()
    )
