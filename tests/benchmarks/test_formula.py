"""The benchmarks' own loss and gradient against the definition over the dense matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor

from alteraser.data.interactions import Interactions
from alteraser.models.enmf import ENMF
from alteraser.models.mf import MF
from alteraser.models.objective import Objective
from benchmarks.formula import Formula, Pairs

OBJECTIVES = {
    "scaled": Objective(w0=0.3, l2=0.05),
    "plain": Objective(w0=0.3, l2=0.7, l2_scaling=0.0),
    "root": Objective(w0=0.1, l2=0.2, l2_scaling=0.5),
    "weighted": Objective(
        w0=0.4, l2=0.05, user_activity=0.6, item_popularity=0.3, mean_user_count=3.5, mean_item_count=5.5
    ),
    "popular": Objective(w0=2.0, l2=0.05, item_popularity=1.0, mean_item_count=2.5),
}
Build = Callable[..., Any]


@pytest.mark.parametrize("enmf", [False, True], ids=["MF", "ENMF"])
@pytest.mark.parametrize("confidences", [False, True], ids=["ones", "confidences"])
@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())
def test_the_loss_and_its_gradient_are_those_of_the_definition(
    objective: Objective,
    confidences: bool,
    enmf: bool,
    random_data: Build,
    small_model: Build,
    dense_loss: Callable[..., Tensor],
) -> None:
    data = random_data(confidences=confidences, empty=True)
    model: MF | ENMF = small_model(data, objective=objective, enmf=enmf)
    users, items = (table.clone().requires_grad_() for table in (model.users, model.items))
    wanted = dense_loss(data, objective, users, items, model.eta if isinstance(model, ENMF) else None)
    wanted.backward()  # type: ignore[no-untyped-call]
    found = Formula(model, Pairs.of(data))
    assert found.loss == pytest.approx(float(wanted.detach()), rel=1e-12)
    for part, table in zip(found.gradient, (users, items), strict=True):
        assert table.grad is not None
        np.testing.assert_allclose(part, table.grad.numpy(), rtol=1e-10, atol=1e-10)
    norm = sum(float(table.grad.square().sum()) for table in (users, items) if table.grad is not None) ** 0.5
    assert found.gradient_norm == pytest.approx(norm, rel=1e-10)


def test_the_counts_are_those_of_the_pairs_that_are_left(
    random_data: Build, small_model: Build, dense_loss: Callable[..., Tensor]
) -> None:
    data, objective = random_data(), OBJECTIVES["weighted"]
    model = small_model(data, objective=objective)
    left = np.random.default_rng(0).random(len(data)) < 0.6
    wanted = float(dense_loss(data.only(left), objective, model.users, model.items))
    assert Formula(model, Pairs.of(data).only(left)).loss == pytest.approx(wanted, rel=1e-12)


def test_single_precision_tables_are_judged_in_double(random_data: Build, small_model: Build) -> None:
    data = random_data()
    single = small_model(data, dtype=torch.float32, enmf=True)
    double = single.with_parameters({name: value.double() for name, value in single.parameters().items()})
    assert Formula(single, Pairs.of(data)).loss == Formula(double, Pairs.of(data)).loss


def test_constants_that_an_objective_keeps_go_before_the_size_of_the_tables(
    random_data: Build, small_model: Build
) -> None:
    data = random_data()
    model = small_model(data)
    pairs, settings = Pairs.of(data), model.objective.to_dict()

    def loss(**constants: float | None) -> float:
        objective = SimpleNamespace(**settings | constants)
        stand_in: Any = SimpleNamespace(parameters=model.parameters, objective=objective)
        return Formula(stand_in, pairs).loss

    of_tables = settings["w0"] * data.n_items, settings["w0"] * data.n_users
    usual = Formula(model, pairs).loss
    assert loss(c_users=None, c_items=None) == usual
    assert loss(c_users=of_tables[0], c_items=of_tables[1]) == pytest.approx(usual, rel=1e-14)
    more = loss(c_users=of_tables[0] + 2, c_items=of_tables[1]) - usual
    assert more == pytest.approx(2 * settings["l2"] * float(model.users.square().sum()), rel=1e-9)


def test_events_that_would_have_to_be_merged_are_refused(random_data: Build) -> None:
    data: Interactions = random_data()
    with pytest.raises(ValueError, match="several events"):
        Pairs.of(replace(data, events=pl.concat([data.events, data.events[:1]])))
