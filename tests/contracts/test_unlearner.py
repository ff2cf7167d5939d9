"""Every built-in unlearner, with every solver, keeps the promises of unlearners; and what only some of them promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from alteraser.live.scopes import AffectedRows, AllRows, AutoRows, ForgettingRows, Passes
from alteraser.optim.damping import LevenbergMarquardt
from alteraser.optim.first_order import Descent, adahessian
from alteraser.optim.linear import Cholesky
from alteraser.optim.newton import Newton, ah_newton, gauss_newton, hf_newton
from alteraser.optim.scipy import bfgs, trust_ncg
from alteraser.optim.search import Backtracking
from alteraser.optim.solvers import SOLVERS
from alteraser.testing import UnlearnerContract
from alteraser.testing.unlearner import REQUESTS, forgotten, full_data, trained_models
from alteraser.train.adamw import AdamW
from alteraser.train.als import ALS
from alteraser.unlearn.alteraser import AltEraser
from alteraser.unlearn.base import Unlearner
from alteraser.unlearn.retrain import Retrain, WarmStart


def rng() -> np.random.Generator:
    return np.random.default_rng(9)


SHORT = AdamW(learning_rate=0.02, max_epochs=10, batch_users=6)
ERASERS: dict[str, Callable[[], Unlearner]] = {
    "alteraser-auto": AltEraser,
    "alteraser-all": lambda: AltEraser(scope="all"),
    "alteraser-forgetting": lambda: AltEraser(ForgettingRows()),
    "alteraser-ah": lambda: AltEraser(solver=ah_newton),
    "alteraser-affected": lambda: AltEraser(scope="affected"),
    "alteraser-hf": lambda: AltEraser(Passes(hf_newton, max_passes=3)),
    "alteraser-gauss": lambda: AltEraser(Passes(gauss_newton, max_passes=3)),
    "alteraser-bfgs": lambda: AltEraser(Passes(bfgs, max_passes=1)),
    "alteraser-trust": lambda: AltEraser(Passes(trust_ncg, max_passes=1)),
    "alteraser-damped": lambda: AltEraser(
        Passes(Newton(Cholesky(), Backtracking(), LevenbergMarquardt()), max_passes=3)
    ),
    "alteraser-adamw": lambda: AltEraser(Passes(Descent(max_steps=20), max_passes=2)),
    "alteraser-adahessian": lambda: AltEraser(Passes(replace(adahessian, max_steps=20), max_passes=2)),
    "alteraser-shared": lambda: AltEraser(Passes(acceleration=None, solve_shared=True)),
}
UNLEARNERS: dict[str, Callable[[], Unlearner]] = {
    **ERASERS,
    "retrain-als": lambda: Retrain(rng()),
    "retrain-adamw": lambda: Retrain(rng(), SHORT),
    "warm-start-als": lambda: WarmStart(rng(), ALS()),
    "warm-start-adamw": lambda: WarmStart(rng(), SHORT),
}


class TestUnlearner(UnlearnerContract):
    @pytest.fixture(params=UNLEARNERS, autouse=True)
    def _unlearner(self, request: pytest.FixtureRequest) -> None:
        self.name = request.param
        self.lowers_the_loss = self.name in ERASERS

    def make(self) -> Unlearner:
        return UNLEARNERS[self.name]()

    def test_a_wholly_forgotten_user_has_no_score(self) -> None:
        for original in self.originals().values():
            assert (self.forget(original).model.scores(np.array([2])) == 0).all()

    def test_rows_visited_and_progress_are_what_they_say(self) -> None:
        full, original, heard = full_data(), trained_models()["enmf"], []
        outcome = self.forget(original, progress=lambda *news: heard.append(news))
        cost, remain, mask = outcome.cost, full.without(forgotten(full)), forgotten(full)
        everyone = len(np.unique(remain.users)) + len(np.unique(remain.items))
        forgetting = len(np.unique(full.users[mask])) + len(np.unique(full.items[mask]))
        unlearner = self.make()
        if isinstance(unlearner, AltEraser):
            every_row = full.n_users + full.n_items
            users, items = (
                len(set(a[mask]) & set(b))
                for a, b in ((full.users, remain.users), (full.items, remain.items))
            )
            match unlearner.rows_to_move:
                case AffectedRows() | AutoRows():
                    assert cost.steps < cost.rows_visited <= forgetting + (cost.steps - 1) * every_row
                    assert cost.passes < cost.steps
                case AllRows():
                    assert cost.rows_visited == users + (cost.steps - 1) * every_row
                    assert cost.passes == cost.steps - 1
                case _:
                    assert cost.rows_visited == users + items + (cost.steps - 1) * everyone
                    assert cost.passes == cost.steps - 1
            assert len(heard) == cost.steps - 1
        else:
            assert cost.rows_visited == cost.steps * everyone
            assert len(heard) == cost.steps
        if not heard:
            return
        told = [loss for *_, loss in heard]
        # The users who forget are solved once more after the last step of affected rows has been told.
        assert told[:-1] == pytest.approx(outcome.losses[-len(told) : -1], rel=1e-6)
        assert told[-1] >= outcome.loss_after * (1 - 1e-6)


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_forgets_what_the_exact_one_forgets(name: str) -> None:
    full, original = full_data(), trained_models()["enmf"]
    exact, found = (
        AltEraser(Passes(solver, max_passes=2, acceleration=None)).forget(original, full, REQUESTS)
        for solver in (ah_newton, SOLVERS[name])
    )
    fall = exact.loss_before - exact.loss_after
    assert abs(found.loss_after - exact.loss_after) < 0.01 * fall
    gone = forgotten(full)
    pairs = full.users[gone], full.items[gone]
    before, after = (model.pair_scores(*pairs).mean() for model in (original, found.model))
    assert after < 0.75 * before
    torch.testing.assert_close(
        found.model.pair_scores(*pairs), exact.model.pair_scores(*pairs), rtol=0, atol=0.01
    )
