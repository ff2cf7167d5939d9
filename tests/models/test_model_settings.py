"""Settings are checked where they are made; weights follow the data at hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from alteraser.data.frames import interactions
from alteraser.data.interactions import Interactions, Side
from alteraser.errors import MismatchError, ModelError, SettingError
from alteraser.live.scopes import AffectedRows, AllRows, ForgettingRows, Passes
from alteraser.models.enmf import ENMF
from alteraser.models.mf import MF
from alteraser.models.objective import Objective
from alteraser.optim.newton import ah_newton
from alteraser.sweep.sweep import Sweeper
from alteraser.train.adamw import AdamW
from alteraser.train.als import ALS
from alteraser.unlearn.alteraser import AltEraser

DataFactory = Callable[..., Interactions]


@pytest.mark.parametrize(
    "settings",
    [
        {"l2": 0},
        {"l2": -1.0},
        {"l2": float("nan")},
        {"l2": float("inf")},
        {"l2": "0.1"},
        {"w0": -0.1},
        {"w0": float("nan")},
        {"l2_scaling": -1.0},
        {"user_activity": -0.5},
        {"item_popularity": float("inf")},
        {"mean_user_count": 0},
        {"mean_item_count": 0.0},
        {"mean_item_count": None},
        {"c_users": -1.0},
        {"c_items": float("nan")},
        {"c_items": "3"},
    ],
    ids=repr,
)
def test_an_objective_out_of_range_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        Objective(**{"w0": 0.3, "l2": 0.01} | settings)


@pytest.mark.parametrize(
    "make",
    [
        lambda: AltEraser(budget_seconds=0),
        lambda: AltEraser("some"),
        lambda: AltEraser(AllRows(), solver=ah_newton),
        lambda: AltEraser("forgetting", solver=ah_newton),
        lambda: Passes(max_passes=-1),
        lambda: Passes(block_rows=0),
        lambda: Passes(solve_shared=True),
        lambda: ForgettingRows(block_rows=0),
        lambda: AffectedRows(tolerance=-1e-3),
        lambda: AllRows(tolerance=float("nan")),
        lambda: AllRows(training_gap=1.5),
        lambda: ALS(max_passes=-1),
        lambda: ALS(tolerance=float("nan")),
        lambda: Sweeper(ah_newton, block_rows=0),
        lambda: AdamW(learning_rate=0),
        lambda: AdamW(learning_rate=float("nan")),
        lambda: AdamW(batch_users=0),
        lambda: AdamW(max_epochs=0),
        lambda: AdamW(patience=0),
        lambda: AdamW(min_improvement=float("nan")),
        lambda: AdamW(min_improvement=-0.1),
    ],
)
def test_settings_out_of_range_are_refused_where_they_are_made(make: Callable[[], object]) -> None:
    with pytest.raises(SettingError):
        make()


@pytest.mark.parametrize("kind", [MF, ENMF])
@pytest.mark.parametrize("dim", [0, -3])
def test_a_model_without_dimensions_is_refused(kind: Any, dim: int, random_data: DataFactory) -> None:
    with pytest.raises(SettingError, match="dim"):
        kind.sized_for(random_data(), dim=dim, rng=np.random.default_rng(0))


def test_tables_that_do_not_fit_each_other_are_refused() -> None:
    with pytest.raises(ModelError):
        MF(torch.zeros(3, 2), torch.zeros(4, 3), Objective(w0=0.3, l2=0.01))
    with pytest.raises(ModelError):
        MF(torch.zeros(3), torch.zeros(4, 3), Objective(w0=0.3, l2=0.01))
    with pytest.raises(ModelError):
        MF(torch.zeros(3, 2), torch.zeros(4, 2, dtype=torch.float64), Objective(w0=0.3, l2=0.01))


@pytest.mark.parametrize("eta", [torch.ones(3), torch.ones(1), torch.ones(2, 1), torch.zeros(2)])
def test_an_eta_that_does_not_fit_is_refused(eta: torch.Tensor) -> None:
    with pytest.raises(ModelError):
        ENMF(torch.zeros(3, 2), torch.zeros(4, 2), Objective(w0=0.3, l2=0.01), eta)


def test_weights_of_a_case_worked_by_hand(build: DataFactory) -> None:
    data = build(np.array([[1, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0]], dtype=bool))
    objective = Objective(w0=0.5, l2=2.0, l2_scaling=1.0, user_activity=0.5, item_popularity=1.0).scaled_to(
        data
    )
    # Five pairs, two users and four items that have any: 2.5 and 1.25, of which two digits are kept.
    assert (objective.mean_user_count, objective.mean_item_count) == (2.5, 1.2)
    assert (objective.c_users, objective.c_items) == (2.0, 1.5)
    weights = objective.weigh(data)
    np.testing.assert_allclose(weights.missing[Side.USERS], 0.5 * np.sqrt([4 / 2.5, 1 / 2.5, 0]))
    np.testing.assert_allclose(weights.missing[Side.ITEMS], [2 / 1.2, 1 / 1.2, 1 / 1.2, 1 / 1.2])
    np.testing.assert_allclose(weights.l2[Side.USERS], 2 * np.array([4 + 2, 1 + 2, 0 + 2]))
    np.testing.assert_allclose(weights.l2[Side.ITEMS], 2 * np.array([2 + 1.5, 1 + 1.5, 1 + 1.5, 1 + 1.5]))


def test_mean_counts_are_of_pairs_however_often_they_came() -> None:
    """Three pairs in six events: two users and two items have 1.5 each."""
    data = interactions(pl.DataFrame({"user_id": list("aaaaab"), "item_id": list("xxxyyx")}))
    objective = Objective(w0=0.3, l2=0.01).scaled_to(data)
    assert (objective.mean_user_count, objective.mean_item_count) == (1.5, 1.5)
    assert objective == Objective(w0=0.3, l2=0.01).scaled_to(interactions(data.to_frame().unique()))


def test_constants_keep_two_digits_of_the_data_they_come_from(random_data: DataFactory) -> None:
    data = random_data(97, 83)
    objective = Objective(w0=0.37, l2=0.01).scaled_to(data)
    n_pairs = data.by(Side.USERS).n_entries
    constants = objective.mean_user_count, objective.mean_item_count, objective.c_users, objective.c_items
    for kept, exact in zip(constants, (n_pairs / 97, n_pairs / 83, 0.37 * 83, 0.37 * 97), strict=True):
        assert kept is not None
        assert kept == float(f"{exact:.1e}") != exact
        assert kept == pytest.approx(exact, rel=0.05)
    # With the number of rows they do not tell the number of interactions.
    assert round(objective.mean_user_count * 97) != n_pairs != round(objective.mean_item_count * 83)


def test_the_penalty_has_constants_of_its_own(build: DataFactory) -> None:
    data = build(np.array([[1, 1, 0], [1, 0, 0]], dtype=bool))
    weights = Objective(w0=0.3, l2=2.0, l2_scaling=2.0, c_users=0.5, c_items=0.0).weigh(data)
    np.testing.assert_allclose(weights.l2[Side.USERS], 2 * np.array([2.5, 1.5]) ** 2)
    np.testing.assert_allclose(weights.l2[Side.ITEMS], 2 * np.array([2.0, 1.0, 0.0]) ** 2)
    # Without them they are w0 times the rows of the other side, whatever data is at hand.
    weights = Objective(l2=2.0, w0=0.37).weigh(data)
    np.testing.assert_allclose(weights.l2[Side.USERS], 2 * (np.array([2, 1]) + 0.37 * 3))
    np.testing.assert_allclose(weights.l2[Side.ITEMS], 2 * (np.array([2, 1, 0]) + 0.37 * 2))


def test_constants_of_the_penalty_follow_w0_until_there_is_data(random_data: DataFactory) -> None:
    data = random_data(20, 10)
    objective = replace(Objective(w0=0.5, l2=0.01), w0=0.1).scaled_to(data)
    assert (objective.c_users, objective.c_items) == (1.0, 2.0)
    assert objective.scaled_to(random_data(40, 30)).c_users == 1.0
    given = Objective(w0=0.1, l2=0.01, c_users=0.0).scaled_to(data)
    assert (given.c_users, given.c_items) == (0.0, 2.0)


@pytest.mark.parametrize("kind", [MF, ENMF])
def test_who_stays_keeps_the_penalty_when_rows_come_and_go(kind: Any, build: DataFactory) -> None:
    """Only rows whose own counts change get another λ: the others' problems do not know how many rows there are."""
    matrix = np.ones((5, 4), dtype=bool)
    matrix[4, 1:] = False
    model = kind.sized_for(build(matrix), dim=2, rng=np.random.default_rng(0))
    before = model.weigh(build(matrix))
    after = model.objective.weigh(build(matrix[:4]))
    np.testing.assert_array_equal(after.l2[Side.USERS], before.l2[Side.USERS][:4])
    np.testing.assert_array_equal(after.l2[Side.ITEMS][1:], before.l2[Side.ITEMS][1:])
    counts = np.array([4, 1])
    np.testing.assert_array_equal(model.row_weights(Side.USERS, counts)[1], before.l2[Side.USERS][[0, 4]])


def test_means_stay_and_counts_follow_after_a_deletion(build: DataFactory) -> None:
    matrix = np.ones((3, 4), dtype=bool)
    objective = Objective(user_activity=1.0, w0=1.0, l2=0.01).scaled_to(build(matrix))
    matrix[0, :2] = False
    weights = objective.weigh(build(matrix))
    np.testing.assert_allclose(weights.missing[Side.USERS], [0.5, 1, 1])


@pytest.mark.parametrize("enmf", [False, True])
def test_a_model_only_takes_data_of_its_size(enmf: bool, random_data: DataFactory, small_model: Any) -> None:
    model = small_model(random_data(6, 5), enmf=enmf)
    for other in (random_data(7, 5), random_data(6, 6), random_data(5, 6)):
        for use in (model.loss, model.check_belongs, lambda data: model.row_problems(Side.USERS, data)):
            with pytest.raises(MismatchError):
                use(other)


@pytest.mark.parametrize("kind", [MF, ENMF])
def test_a_new_model_is_that_of_its_seed(kind: Any, random_data: DataFactory) -> None:
    data = random_data(30, 20)
    first, again, other = (
        kind.sized_for(data, dim=16, rng=np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(first.users, again.users)
    assert torch.equal(first.items, again.items)
    assert not torch.equal(first.users, other.users)
    fresh = first.fresh(np.random.default_rng(2))
    assert torch.equal(fresh.users, other.users)
    assert fresh.objective == first.objective
    assert torch.equal(fresh.h, torch.ones(16))


def test_rows_without_interactions_are_zeroed_and_no_others(
    random_data: DataFactory, small_model: Any
) -> None:
    data = random_data(empty=True)
    model = small_model(data, enmf=True)
    kept = model.without_empty_rows(data)
    assert (kept.users[-1] == 0).all()
    assert (kept.items[-1] == 0).all()
    assert torch.equal(kept.users[:-1], model.users[:-1])
    assert torch.equal(kept.items[:-1], model.items[:-1])
    assert (model.users[-1] != 0).all()  # the original is as it was


def test_scores_are_those_of_the_definition(random_data: DataFactory, small_model: Any) -> None:
    data = random_data(6, 5)
    model = small_model(data, enmf=True)
    wanted = np.einsum("ud,vd,d->uv", model.users.numpy(), model.items.numpy(), model.h.numpy())
    np.testing.assert_allclose(model.scores(np.array([4, 0])).numpy(), wanted[[4, 0]], rtol=1e-12)
    users, items = np.array([3, 3, 0], np.int32), np.array([4, 0, 1], np.int32)
    np.testing.assert_allclose(model.pair_scores(users, items).numpy(), wanted[users, items], rtol=1e-12)
