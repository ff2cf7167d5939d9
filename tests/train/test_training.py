"""Training: the same for the same seed, ALS never rises and arrives, AdamW comes near it, planted tastes are found."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from alteraser.data.interactions import Interactions, Side
from alteraser.errors import ModelError, SettingError
from alteraser.measure import ranking
from alteraser.models.enmf import ENMF
from alteraser.models.mf import MF
from alteraser.models.objective import Objective
from alteraser.optim.newton import ah_newton, hf_newton
from alteraser.sweep.sweep import Rows, Sweeper
from alteraser.train.adamw import AdamW
from alteraser.train.als import ALS
from alteraser.train.base import Trainer
from alteraser.train.fit import fit

TRAINERS: dict[str, Trainer] = {
    "als": ALS(max_passes=15),
    "als-others": ALS(max_passes=15, solve_shared=True),
    "als-hf": ALS(max_passes=3, solver=hf_newton),
    "adamw": AdamW(max_epochs=30, batch_users=7),
}
every_trainer = pytest.mark.parametrize("trainer", TRAINERS.values(), ids=list(TRAINERS))
both_kinds = pytest.mark.parametrize("kind", [MF, ENMF])
both_types = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])


@pytest.fixture(scope="module")
def data(random_data: Any) -> Interactions:
    interactions: Interactions = random_data(40, 25, density=0.2, confidences=True, empty=True)
    return interactions


@every_trainer
@both_kinds
def test_the_same_seed_gives_the_same_model(trainer: Trainer, kind: Any, data: Interactions) -> None:
    def run(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        return fit(kind.sized_for(data, dim=6, rng=rng), data, trainer=trainer, rng=rng)

    first, again, other = run(3), run(3), run(4)
    assert first.losses == again.losses
    for name, value in first.model.parameters().items():
        assert torch.equal(value, again.model.parameters()[name])
    assert not torch.equal(first.model.users, other.model.users)


def test_only_training_that_is_random_needs_a_generator(data: Interactions) -> None:
    """No seed is chosen for the caller: ALS draws nothing, and AdamW says what it wants."""
    model = MF.sized_for(data, dim=4, rng=np.random.default_rng(0))
    without, given = (
        fit(model, data, trainer=ALS(max_passes=3), rng=rng) for rng in (None, np.random.default_rng(5))
    )
    assert torch.equal(without.model.users, given.model.users)
    assert torch.equal(without.model.items, given.model.items)
    with pytest.raises(SettingError, match=r"rng is None.* AdamW .*Pass rng=np\.random\.default_rng\("):
        fit(model, data, trainer=AdamW(max_epochs=1))


@every_trainer
@both_types
def test_training_leaves_its_start_alone_and_empty_rows_at_zero(
    trainer: Trainer, dtype: torch.dtype, data: Interactions
) -> None:
    start = ENMF.sized_for(data, dim=4, rng=np.random.default_rng(0), dtype=dtype)
    before = {name: value.clone() for name, value in start.parameters().items()}
    training = fit(start, data, trainer=trainer, rng=np.random.default_rng(0))
    for name, value in start.parameters().items():
        assert torch.equal(value, before[name])
    for name, value in training.model.parameters().items():
        assert value.dtype == dtype
        assert not value.requires_grad, name
    assert (training.model.users[-1] == 0).all()
    assert (training.model.items[-1] == 0).all()
    assert training.model.loss(data) < start.loss(data)
    assert training.rows_visited == len(training.losses) * (39 + 24)


@both_kinds
@both_types
@pytest.mark.parametrize("solve_shared", [False, True])
def test_als_never_raises_the_loss(
    kind: Any, dtype: torch.dtype, solve_shared: bool, data: Interactions
) -> None:
    model = kind.sized_for(data, dim=8, rng=np.random.default_rng(0), dtype=dtype)
    training = fit(model, data, trainer=ALS(max_passes=40, tolerance=0.0, solve_shared=solve_shared))
    slack = 1e-6 if dtype is torch.float32 else 1e-12
    assert all(
        after <= before * (1 + slack) for before, after in pairwise([model.loss(data), *training.losses])
    )
    assert training.losses[-1] == training.model.loss(data)


@both_kinds
def test_als_arrives_where_the_gradient_vanishes(kind: Any, data: Interactions) -> None:
    model = kind.sized_for(
        data, dim=3, objective=Objective(w0=0.3, l2=0.1), rng=np.random.default_rng(0), dtype=torch.float64
    )
    before = model.gradient_norm(data)
    training = fit(model, data, trainer=ALS(max_passes=5000, tolerance=1e-16))
    assert training.converged
    assert training.model.gradient_norm(data) < 1e-6 * before


def test_als_stops_by_its_rule_and_says_whether_it_did(data: Interactions) -> None:
    model = MF.sized_for(data, dim=4, rng=np.random.default_rng(0))
    met = fit(model, data, trainer=ALS(tolerance=1e-3))
    assert met.converged
    assert met.losses[-2] - met.losses[-1] < 1e-3 * met.losses[-2]
    assert not fit(model, data, trainer=ALS(max_passes=1, tolerance=1e-9)).converged
    assert len(fit(model, data, trainer=ALS(max_passes=0)).losses) == 0


@both_kinds
def test_adamw_comes_near_the_loss_of_als(kind: Any, data: Interactions) -> None:
    """Within 2 %: it keeps circling at its learning rate. With ENMF it moves h as well and may get lower."""
    objective = Objective(w0=0.3, l2=0.1)
    model = kind.sized_for(
        data, dim=3, objective=objective, rng=np.random.default_rng(0), dtype=torch.float64
    )
    als = fit(model, data, trainer=ALS(max_passes=2000, tolerance=1e-9)).model
    adamw = fit(
        model, data, trainer=AdamW(max_epochs=800, batch_users=40, patience=20), rng=np.random.default_rng(1)
    )
    assert adamw.model.loss(data) < 1.02 * als.loss(data)
    if kind is MF:
        assert adamw.model.loss(data) >= als.loss(data) * (1 - 1e-3)
    assert adamw.model.loss(data) < 0.9 * model.loss(data)


def test_the_first_loss_of_adamw_in_one_batch_is_that_of_its_start(data: Interactions) -> None:
    model = ENMF.sized_for(data, dim=4, rng=np.random.default_rng(0), dtype=torch.float64)
    training = fit(model, data, trainer=AdamW(max_epochs=1, batch_users=1000), rng=np.random.default_rng(0))
    assert training.losses == [pytest.approx(model.without_empty_rows(data).loss(data), rel=1e-12)]
    assert not training.converged


def test_adamw_visits_users_in_an_order_of_its_generator(data: Interactions) -> None:
    """The same start and another generator: another model, unless all users are in one batch."""
    start = MF.sized_for(data, dim=4, rng=np.random.default_rng(0), dtype=torch.float64)

    def trained(seed: int, batch_users: int) -> MF:
        trainer = AdamW(max_epochs=2, batch_users=batch_users)
        return fit(start, data, trainer=trainer, rng=np.random.default_rng(seed)).model

    assert (trained(1, batch_users=10).items - trained(2, batch_users=10).items).abs().max() > 1e-3
    torch.testing.assert_close(trained(1, batch_users=40).items, trained(2, batch_users=40).items)


def test_adamw_stops_early_and_keeps_its_best(data: Interactions) -> None:
    """What it then returns is the model of a training that ended after the best epoch."""
    model = MF.sized_for(data, dim=4, rng=np.random.default_rng(0))
    trainer = AdamW(max_epochs=500, patience=3, min_improvement=0.02, batch_users=10)
    training = fit(model, data, trainer=trainer, rng=np.random.default_rng(0))
    assert training.converged
    assert len(training.losses) < 500
    best = min(training.losses[:-3])
    assert all(loss >= best * (1 - 0.02) for loss in training.losses[-3:])
    cut = replace(trainer, max_epochs=len(training.losses) - 3)
    ended = fit(model, data, trainer=cut, rng=np.random.default_rng(0))
    assert ended.losses == training.losses[:-3]
    assert not ended.converged
    assert torch.equal(training.model.users, ended.model.users)
    assert torch.equal(training.model.items, ended.model.items)


@pytest.mark.parametrize("learning_rate", [1e3, 1e8, 1e30, 1e38, float("inf")])
@pytest.mark.parametrize("max_epochs", [1, 30])
@both_types
@both_kinds
def test_an_absurd_learning_rate_is_an_error_not_a_model(
    learning_rate: float, max_epochs: int, dtype: torch.dtype, kind: Any, data: Interactions
) -> None:
    model = kind.sized_for(data, dim=4, rng=np.random.default_rng(0), dtype=dtype)
    trainer = AdamW(learning_rate=learning_rate, max_epochs=max_epochs, batch_users=10)
    with pytest.raises(ModelError, match="learning_rate"):
        fit(model, data, trainer=trainer, rng=np.random.default_rng(0))


@pytest.mark.parametrize("trainer", [ALS(), AdamW(batch_users=64, max_epochs=150)], ids=["als", "adamw"])
def test_planted_tastes_are_found(trainer: Trainer, build: Any) -> None:
    """Users of three tastes show a random half of the items of their taste; the other half must rank first."""
    rng = np.random.default_rng(0)
    n_users, n_items = 90, 60
    tastes = np.eye(3)[rng.integers(0, 3, n_users)] @ np.eye(3)[rng.integers(0, 3, n_items)].T > 0
    shown = tastes & (rng.random(tastes.shape) < 0.5)
    shown[np.arange(n_users), tastes.argmax(1)] = True
    data, hidden = build(shown), build(tastes & ~shown)
    model = fit(MF.sized_for(data, dim=4, rng=rng), data, trainer=trainer, rng=rng).model

    users, relevant = np.arange(n_users), hidden.by(Side.USERS)
    popularity = MF(
        torch.ones(n_users, 1), torch.from_numpy(shown.sum(0)[:, None].astype(np.float32)), Objective(w0=0.3, l2=0.01)
    )
    ndcg = {}
    for name, each in (("model", model), ("popularity", popularity)):
        lists = ranking.top_k(each, users, 5, exclude=data.by(Side.USERS))
        found = ranking.hits(lists, users, relevant)
        ndcg[name] = float(ranking.ndcg(found, relevant.counts, 5).mean())
    assert ndcg["model"] > 0.97
    assert ndcg["popularity"] < 0.6


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("alpha", [1.0, 4.0])
def test_a_half_pass_is_that_of_the_implicit_library(alpha: float, random_data: Any) -> None:
    """implicit minimises Σ c (p − ŷ)² + reg ‖·‖² over all pairs, c being alpha on positives, 1 elsewhere."""
    als = pytest.importorskip("implicit.als", reason="implicit is installed with alteraser[dev]")
    data = random_data(50, 35, density=0.2)
    regularization, dim = 0.7, 16
    # Ours is the same divided by alpha.
    objective = Objective(w0=1 / alpha, l2=regularization / alpha, l2_scaling=0.0)
    model = MF.sized_for(data, dim=dim, objective=objective, rng=np.random.default_rng(0))
    theirs = als.AlternatingLeastSquares(
        factors=dim,
        regularization=regularization,
        alpha=alpha,
        use_cg=False,
        use_gpu=False,
        iterations=1,
        num_threads=1,
    )
    theirs.user_factors, theirs.item_factors = model.users.numpy().copy(), model.items.numpy().copy()
    positives = sp.csr_matrix((np.ones(len(data), np.float32), (data.users, data.items)), shape=(50, 35))
    theirs.fit(positives, show_progress=False)

    users = Sweeper(ah_newton).half(model, data, Rows.occupied(data), Side.USERS).users.numpy()
    items = Sweeper(ah_newton).sweep(model, data, Rows.occupied(data)).items.numpy()
    assert np.linalg.norm(users - theirs.user_factors) <= 1e-3 * np.linalg.norm(theirs.user_factors)
    assert np.linalg.norm(items - theirs.item_factors) <= 1e-3 * np.linalg.norm(theirs.item_factors)
