"""What every unlearner promises, with every solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from alteraser.data.changes import Change
from alteraser.data.interactions import Interactions, Side
from alteraser.data.requests import Requests
from alteraser.errors import MismatchError, NothingRemains, UnknownInteractions
from alteraser.live.scopes import AffectedRows, AllRows, ForgettingRows, Passes
from alteraser.models.objective import Objective
from alteraser.optim.damping import LevenbergMarquardt
from alteraser.optim.first_order import Descent, adahessian
from alteraser.optim.linear import Cholesky
from alteraser.optim.newton import Newton, ah_newton, gauss_newton, hf_newton
from alteraser.optim.scipy import bfgs, trust_ncg
from alteraser.optim.search import Backtracking
from alteraser.optim.solvers import SOLVERS
from alteraser.train.adamw import AdamW
from alteraser.train.als import ALS
from alteraser.train.fit import fit
from alteraser.unlearn.alteraser import AltEraser
from alteraser.unlearn.base import Unlearner
from alteraser.unlearn.retrain import Retrain, WarmStart


def rng() -> np.random.Generator:
    return np.random.default_rng(9)


SHORT = AdamW(learning_rate=0.02, max_epochs=40, batch_users=6)
ERASERS: dict[str, Callable[[], Unlearner]] = {
    "alteraser-all": AltEraser,
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
    "alteraser-adamw": lambda: AltEraser(Passes(Descent(max_steps=60), max_passes=2)),
    "alteraser-adahessian": lambda: AltEraser(Passes(replace(adahessian, max_steps=60), max_passes=2)),
    "alteraser-shared": lambda: AltEraser(Passes(acceleration=None, solve_shared=True)),
}
UNLEARNERS: dict[str, Callable[[], Unlearner]] = {
    **ERASERS,
    "retrain-als": lambda: Retrain(rng()),
    "retrain-adamw": lambda: Retrain(rng(), SHORT),
    "warm-start-als": lambda: WarmStart(rng(), ALS()),
    "warm-start-adamw": lambda: WarmStart(rng(), SHORT),
}
every_unlearner = pytest.mark.parametrize("make", UNLEARNERS.values(), ids=list(UNLEARNERS))
both_kinds = pytest.mark.parametrize("enmf", [False, True], ids=["mf", "enmf"])

# Everything of u2, one pair each of u4 and u7, and an item from everyone.
REQUESTS = Requests.of(
    [{"user": "u2"}, {"user": "u4", "item": "i4"}, {"user": "u7", "item": "i7"}, {"item": "i5"}]
)


@pytest.fixture(scope="module")
def full(random_data: Any) -> Interactions:
    data: Interactions = random_data(14, 10, density=0.5, confidences=True)
    return data


@pytest.fixture(scope="module")
def originals(full: Interactions, small_model: Any) -> dict[bool, Any]:
    objective = Objective(w0=0.2, l2=0.1)
    models = {
        enmf: small_model(full, enmf=enmf, objective=objective, dtype=torch.float32) for enmf in (False, True)
    }
    return {enmf: fit(model, full, trainer=ALS(max_passes=20)).model for enmf, model in models.items()}


def pairs_of(change: Change) -> set[tuple[int, int]]:
    return {(u, i) for u, i in zip(change.users, change.items, strict=True)}


def forgotten(full: Interactions) -> Any:
    users, items = full.users, full.items
    return (users == 2) | ((users == 4) & (items == 4)) | ((users == 7) & (items == 7)) | (items == 5)


@every_unlearner
@both_kinds
def test_the_remaining_data_is_what_was_not_asked_for(
    make: Callable[[], Unlearner], enmf: bool, full: Interactions, originals: dict[bool, Any]
) -> None:
    outcome = make().forget(originals[enmf], full, REQUESTS)
    mask = forgotten(full)
    assert pairs_of(outcome.change) == {
        (u, i) for u, i in zip(full.users[mask], full.items[mask], strict=True)
    }
    assert outcome.requests.n_forgotten == mask.sum()
    kept = outcome.remain.to_frame().rows()
    assert kept == full.without(mask).to_frame().rows()
    assert (outcome.remain.n_users, outcome.remain.n_items) == (full.n_users, full.n_items)
    assert outcome.requests.n_honoured == 4


@every_unlearner
@both_kinds
def test_a_wholly_forgotten_id_is_a_zero_row_and_a_tombstone(
    make: Callable[[], Unlearner], enmf: bool, full: Interactions, originals: dict[bool, Any]
) -> None:
    outcome = make().forget(originals[enmf], full, REQUESTS)
    assert not outcome.model.users[2].numpy().view(np.uint32).any()
    assert not outcome.model.items[5].numpy().view(np.uint32).any()
    for side, row in ((Side.USERS, 2), (Side.ITEMS, 5)):
        ids = outcome.remain.vocabulary(side).ids
        assert ids[row] is None
        assert ids.null_count() == 1
        assert full.vocabulary(side).ids.null_count() == 0
    assert (outcome.model.scores(np.array([2])) == 0).all()


@every_unlearner
@both_kinds
def test_the_original_and_the_full_data_are_as_they_were(
    make: Callable[[], Unlearner], enmf: bool, full: Interactions, originals: dict[bool, Any]
) -> None:
    original = originals[enmf]
    before = {name: value.clone() for name, value in original.parameters().items()}
    digest, events = full.digest(), full.events.clone()
    outcome = make().forget(original, full, REQUESTS)
    for name, value in original.parameters().items():
        assert torch.equal(value, before[name])
        assert not value.requires_grad
    assert full.digest() == digest
    assert full.events.equals(events)
    for name, value in outcome.model.parameters().items():
        assert not value.requires_grad
        assert value.dtype == before[name].dtype
    assert not np.shares_memory(outcome.model.users.numpy(), original.users.numpy())
    assert type(outcome.model) is type(original)
    assert outcome.model.objective == original.objective


@every_unlearner
def test_the_cost_is_what_it_says(
    make: Callable[[], Unlearner], full: Interactions, originals: dict[bool, Any]
) -> None:
    original, heard = originals[True], []
    outcome = make().forget(original, full, REQUESTS, progress=lambda *news: heard.append(news))
    cost, remain, mask = outcome.cost, full.without(forgotten(full)), forgotten(full)
    assert cost.seconds > 0
    assert cost.steps == len(outcome.losses) - 1 >= 1
    assert outcome.loss_before == original.loss(remain)
    assert outcome.loss_after == outcome.model.loss(remain)
    everyone = len(np.unique(remain.users)) + len(np.unique(remain.items))
    forgetting = len(np.unique(full.users[mask])) + len(np.unique(full.items[mask]))
    unlearner = make()
    if isinstance(unlearner, AltEraser):
        every_row = full.n_users + full.n_items
        users, items = set(full.users[mask]) & set(remain.users), set(full.items[mask]) & set(remain.items)
        match unlearner.rows_to_move:
            case AffectedRows():
                assert cost.steps < cost.rows_visited <= forgetting + (cost.steps - 1) * every_row
                assert cost.passes < cost.steps
            case AllRows():
                assert cost.rows_visited == len(users) + (cost.steps - 1) * every_row
                assert cost.passes == cost.steps - 1
            case _:
                assert cost.rows_visited == len(users) + len(items) + (cost.steps - 1) * everyone
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


@pytest.mark.parametrize("make", ERASERS.values(), ids=list(ERASERS))
@both_kinds
def test_erasing_lowers_the_loss_on_what_remains(
    make: Callable[[], Unlearner], enmf: bool, full: Interactions, originals: dict[bool, Any]
) -> None:
    outcome = make().forget(originals[enmf], full, REQUESTS)
    assert all(after <= before * (1 + 1e-6) for before, after in pairwise(outcome.losses))
    assert outcome.loss_after < outcome.loss_before


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_forgets_what_the_exact_one_forgets(
    name: str, full: Interactions, originals: dict[bool, Any]
) -> None:
    exact, found = (
        AltEraser(Passes(solver, max_passes=2, acceleration=None)).forget(originals[True], full, REQUESTS)
        for solver in (ah_newton, SOLVERS[name])
    )
    fall = exact.loss_before - exact.loss_after
    assert abs(found.loss_after - exact.loss_after) < 0.01 * fall
    gone = forgotten(full)
    pairs = full.users[gone], full.items[gone]
    before, after = (model.pair_scores(*pairs).mean() for model in (originals[True], found.model))
    assert after < 0.75 * before
    torch.testing.assert_close(
        found.model.pair_scores(*pairs), exact.model.pair_scores(*pairs), rtol=0, atol=0.01
    )


@every_unlearner
def test_the_same_call_gives_the_same_model(
    make: Callable[[], Unlearner], full: Interactions, originals: dict[bool, Any]
) -> None:
    reversed_requests = Requests(REQUESTS.frame.reverse())
    first = make().forget(originals[True], full, REQUESTS).model
    again = make().forget(originals[True], full, reversed_requests).model
    for name, value in first.parameters().items():
        assert torch.equal(value, again.parameters()[name]), name


@every_unlearner
def test_a_model_of_other_data_is_refused(
    make: Callable[[], Unlearner], originals: dict[bool, Any], random_data: Any
) -> None:
    for other in (random_data(13, 10), random_data(14, 11)):
        with pytest.raises(MismatchError):
            make().forget(originals[False], other, Requests.of([{"user": "u2"}]))


@every_unlearner
def test_a_request_that_matches_nothing_is_an_error_unless_ignored(
    make: Callable[[], Unlearner], full: Interactions, originals: dict[bool, Any]
) -> None:
    requests = REQUESTS + Requests.of([{"user": "nobody"}])
    with pytest.raises(UnknownInteractions):
        make().forget(originals[False], full, requests)
    outcome = make().forget(originals[False], full, requests, missing="ignore")
    assert outcome.requests.n_missing == 1
    assert outcome.remain.digest() == full.without(forgotten(full)).digest()


@every_unlearner
def test_when_nothing_matches_the_model_stays_as_it_is(
    make: Callable[[], Unlearner], full: Interactions, originals: dict[bool, Any]
) -> None:
    outcome = make().forget(originals[True], full, Requests.of([{"user": "nobody"}]), missing="ignore")
    for name, value in originals[True].parameters().items():
        assert torch.equal(outcome.model.parameters()[name], value)
    assert outcome.remain.digest() == full.digest()
    assert outcome.cost.rows_visited == 0


@every_unlearner
def test_forgetting_everything_is_refused(
    make: Callable[[], Unlearner], full: Interactions, originals: dict[bool, Any]
) -> None:
    everyone = Requests.of([{"user": f"u{row}"} for row in range(full.n_users)])
    with pytest.raises(NothingRemains):
        make().forget(originals[False], full, everyone)
