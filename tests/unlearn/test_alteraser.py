"""AltEraser: the forgetting pass, its stopping rule, and that where it ends does not depend on how it was asked."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alteraser.data.interactions import Interactions, Side
from alteraser.data.requests import Requests
from alteraser.errors import SettingError, UnknownInteractions
from alteraser.live.scopes import AffectedRows, AllRows, AutoRows, ForgettingRows, Passes, named_scope
from alteraser.models.enmf import ENMF
from alteraser.models.objective import Objective
from alteraser.optim.newton import ah_newton, hf_newton
from alteraser.sweep.sweep import Rows, Sweeper, repeat
from alteraser.train.als import ALS
from alteraser.train.fit import fit
from alteraser.unlearn.alteraser import AltEraser

# Strong enough a penalty that the minimum is the same from everywhere nearby, and reached in few passes.
OBJECTIVE = Objective(w0=0.3, l2=0.1, l2_scaling=0.5)
TO_THE_END = AltEraser(AllRows(tolerance=0.0, max_steps=100))


@pytest.fixture(scope="module")
def full(random_data: Any) -> Interactions:
    data: Interactions = random_data(15, 10, density=0.35)
    return data


@pytest.fixture(scope="module")
def original(full: Interactions, small_model: Any) -> Any:
    return converged(small_model(full, dim=2, objective=OBJECTIVE), full)


def converged(model: Any, data: Interactions) -> Any:
    """At the minimum as nearly as double precision allows; a rule on the loss would stop at half the digits."""
    for _ in range(3000):
        model = Sweeper(ah_newton).sweep(model, data, Rows.occupied(data))
        if model.gradient_norm(data) < 1e-11:
            return model
    raise AssertionError(model.gradient_norm(data))


@pytest.fixture(scope="module")
def chosen(full: Interactions) -> Any:
    return np.random.default_rng(2).random(len(full)) < 0.15


def scores(model: Any) -> Any:
    return model.scores(np.arange(model.n_users)).numpy()


def test_forgetting_nothing_changes_a_converged_model_by_nothing(full: Interactions, original: Any) -> None:
    outcome = AltEraser().forget(original, full, Requests.of([]))
    np.testing.assert_allclose(scores(outcome.model), scores(original), rtol=0, atol=1e-10)
    assert len(outcome.remain) == len(full)
    assert outcome.remain.digest() == full.digest()
    unknown = Requests.of([{"user": "nobody"}, {"user": "u0", "item": "nothing"}])
    ignored = AltEraser().forget(original, full, unknown, missing="ignore")
    np.testing.assert_allclose(scores(ignored.model), scores(original), rtol=0, atol=1e-10)
    assert ignored.requests.n_missing == 2


def test_passes_over_a_converged_model_change_nothing(full: Interactions, original: Any) -> None:
    passes = repeat(Sweeper(ah_newton), original, full, max_passes=5, tolerance=0.0)
    np.testing.assert_allclose(scores(passes.model), scores(original), rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "eraser",
    [AltEraser(Passes(max_passes=0)), AltEraser("forgetting"), AltEraser(ForgettingRows(hf_newton))],
    ids=["no passes", "forgetting", "by HF-Newton"],
)
def test_with_no_passes_over_all_only_the_forgetting_rows_are_solved(
    eraser: AltEraser,
    full: Interactions,
    original: Any,
    chosen: Any,
    pair_requests: Any,
    transposed: Any,
    dense_rows: Any,
) -> None:
    outcome = eraser.forget(original, full, pair_requests(full, chosen))
    users, items = np.unique(full.users[chosen]), np.unique(full.items[chosen])
    remain, h = full.without(chosen), np.ones(2)
    wanted_users = original.users.numpy().copy()
    wanted_users[users] = dense_rows(remain, OBJECTIVE, original.items.numpy(), h)[users]
    wanted_items = original.items.numpy().copy()
    wanted_items[items] = dense_rows(transposed(remain), OBJECTIVE, wanted_users, h)[items]
    near = 1e-4 if "hf" in repr(eraser) or "CG" in repr(eraser) else 1e-10
    np.testing.assert_allclose(outcome.model.users.numpy(), wanted_users, rtol=0, atol=near)
    np.testing.assert_allclose(outcome.model.items.numpy(), wanted_items, rtol=0, atol=near)
    others = np.setdiff1d(np.arange(full.n_users), users)
    assert torch.equal(outcome.model.users[others], original.users[others])
    assert outcome.cost.steps == 1
    assert outcome.cost.rows_visited == len(users) + len(items)


def best_of(model: Any, remain: Interactions) -> float:
    return float(converged(model, remain).loss(remain))


@pytest.mark.parametrize("kind", [AutoRows, AffectedRows, AllRows, Passes])
def test_it_stops_where_the_tolerance_is_met(
    kind: Any, full: Interactions, original: Any, chosen: Any, pair_requests: Any
) -> None:
    """The same rule for all: so much is left of the gap that the requests opened, the less the less is tolerated."""
    requests = pair_requests(full, chosen)
    left = []
    for tolerance in (0.3, 1e-2, 1e-4):
        outcome = AltEraser(kind(tolerance=tolerance)).forget(original, full, requests)
        best = best_of(outcome.model, outcome.remain)
        assert outcome.converged
        assert outcome.loss_after - best <= tolerance * (outcome.loss_before - best)
        left.append(outcome.loss_after - best)
    assert left == sorted(left, reverse=True)
    assert left[0] > 10 * left[-1]
    hasty = AltEraser(kind(1e-4, 1) if kind is not Passes else Passes(tolerance=1e-4, max_passes=1))
    assert not hasty.forget(original, full, requests).converged


@pytest.mark.parametrize(
    "scope", [AffectedRows(1e-6), AllRows(1e-6), Passes(tolerance=1e-6), Passes(acceleration=None)], ids=repr
)
def test_no_step_begins_after_the_budget(
    scope: Any, full: Interactions, original: Any, chosen: Any, pair_requests: Any
) -> None:
    """The forgetting rows are solved whatever it takes: without them nothing would be forgotten."""
    requests = pair_requests(full, chosen)
    # So little that the clock cannot show it: over from the start.
    outcome = AltEraser(scope, budget_seconds=1e-300).forget(original, full, requests)
    limit = {"max_passes": 0} if isinstance(scope, Passes) else {"max_steps": 0}
    only = AltEraser(replace(scope, **limit)).forget(original, full, requests)
    assert not outcome.converged
    assert outcome.cost.steps == 1
    assert torch.equal(outcome.model.users, only.model.users)
    assert torch.equal(outcome.model.items, only.model.items)
    assert AltEraser(scope).forget(original, full, requests).cost.steps > 2


def test_it_ends_where_training_on_the_remaining_data_ends(
    full: Interactions, original: Any, chosen: Any, pair_requests: Any
) -> None:
    outcome = TO_THE_END.forget(original, full, pair_requests(full, chosen))
    remain = full.without(chosen)
    trained = converged(original, remain)
    assert outcome.model.gradient_norm(outcome.remain) < 1e-6 < original.gradient_norm(outcome.remain)
    assert outcome.loss_after == pytest.approx(trained.loss(remain), rel=1e-12)
    np.testing.assert_allclose(scores(outcome.model), scores(trained), rtol=0, atol=1e-6)


def test_the_size_of_a_block_does_not_change_the_answer(
    full: Interactions, original: Any, chosen: Any, pair_requests: Any
) -> None:
    requests = pair_requests(full, chosen)
    whole = AltEraser(Passes()).forget(original, full, requests)
    for block_rows in (1, 4):
        outcome = AltEraser(Passes(block_rows=block_rows)).forget(original, full, requests)
        torch.testing.assert_close(outcome.model.users, whole.model.users, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(outcome.model.items, whole.model.items, rtol=1e-12, atol=1e-12)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_order_and_repetition_of_requests_do_not_matter(
    seed: int, full: Interactions, original: Any, chosen: Any, pair_requests: Any
) -> None:
    requests = pair_requests(full, chosen)
    wanted = AltEraser().forget(original, full, requests)
    order = np.random.default_rng(seed).permutation(len(requests))
    shuffled = Requests(requests.frame[order] if seed % 2 else requests.frame[np.append(order, order[:3])])
    outcome = AltEraser().forget(original, full, shuffled)
    assert torch.equal(outcome.model.users, wanted.model.users)
    assert torch.equal(outcome.model.items, wanted.model.items)
    assert outcome.remain.digest() == wanted.remain.digest()


@pytest.mark.parametrize("solver", [None, hf_newton], ids=["ah_newton", "hf_newton"])
def test_two_batches_end_where_one_ends(
    solver: Any, full: Interactions, original: Any, chosen: Any, pair_requests: Any
) -> None:
    eraser = TO_THE_END if solver is None else AltEraser(Passes(solver, max_passes=60, tolerance=0.0))
    nearness = 1e-6 if solver is None else 1e-3
    first, second = chosen.copy(), chosen.copy()
    first[np.flatnonzero(chosen)[::2]] = False
    second[first] = False
    at_once = eraser.forget(original, full, pair_requests(full, chosen))
    half_way = eraser.forget(original, full, pair_requests(full, first))
    outcome = eraser.forget(half_way.model, half_way.remain, pair_requests(full, second))
    assert outcome.remain.digest() == at_once.remain.digest()
    assert outcome.loss_after == pytest.approx(at_once.loss_after, rel=nearness)
    np.testing.assert_allclose(scores(outcome.model), scores(at_once.model), rtol=0, atol=nearness)


def test_a_request_repeated_in_a_later_batch_is_an_error_or_changes_nothing(
    full: Interactions, original: Any, chosen: Any, pair_requests: Any
) -> None:
    requests = pair_requests(full, chosen) + Requests.of([{"user": "u3"}])
    first = TO_THE_END.forget(original, full, requests)
    with pytest.raises(UnknownInteractions):
        TO_THE_END.forget(first.model, first.remain, requests)
    again = TO_THE_END.forget(first.model, first.remain, requests, missing="ignore")
    assert again.requests.n_honoured == 0
    np.testing.assert_allclose(scores(again.model), scores(first.model), rtol=0, atol=1e-6)
    assert again.remain.digest() == first.remain.digest()


def test_the_step_for_h_lowers_the_loss_further_where_h_is_wrong(build: Any) -> None:
    """Users of two kinds, each with the items of its kind, but h has one dimension reversed."""
    kinds = np.arange(12) % 2
    full = build(kinds[:, None] == (np.arange(10) % 2)[None, :])
    planted = torch.eye(2, dtype=torch.float64)
    original = ENMF(
        planted[torch.from_numpy(kinds)],
        planted[torch.arange(10) % 2],
        Objective(w0=0.5, l2=1e-3, l2_scaling=0.0),
        torch.tensor([1.0, -1.0], dtype=torch.float64),
    )
    requests = Requests.of([{"user": "u0", "item": "i0"}])
    fixed = AltEraser(ForgettingRows()).forget(original, full, requests)
    solved = AltEraser(ForgettingRows(solve_shared=True)).forget(original, full, requests)
    assert torch.equal(fixed.model.eta, original.eta)
    assert solved.loss_after < 0.1 * fixed.loss_after
    assert (solved.model.h > 0).all()
    assert float(solved.model.h.square().mean()) == pytest.approx(1, rel=1e-12)


def test_nothing_forgotten_survives_in_a_weight(build: Any, small_model: Any) -> None:
    """Whatever the forgotten interactions were, the model converges to what the remaining data alone gives."""
    objective = Objective(
        w0=0.4, l2=0.3, user_activity=0.5, item_popularity=0.5, mean_user_count=4.0, mean_item_count=5.0
    )
    kept = np.random.default_rng(1).random((12, 8)) < 0.4
    ends = []
    for seed in (2, 3):
        added = (np.random.default_rng(seed).random((12, 8)) < 0.2) & ~kept
        full = build(kept | added)
        model = converged(small_model(full, dim=2, objective=objective), full)
        users, items = np.nonzero(added)
        requests = Requests.pairs([f"u{u}" for u in users], [f"i{i}" for i in items])
        ends.append(scores(TO_THE_END.forget(model, full, requests).model))
    np.testing.assert_allclose(ends[0], ends[1], rtol=0, atol=1e-6)


@pytest.fixture
def half_trained(full: Interactions, small_model: Any) -> Any:
    """An original two passes into its training."""
    start = small_model(full, dim=2, objective=OBJECTIVE)
    return repeat(Sweeper(ah_newton), start, full, max_passes=2, tolerance=0.0).model


@pytest.mark.parametrize(
    "scope",
    [ForgettingRows(), AffectedRows(1e-4, 50), AllRows(1e-4, 50), Passes(max_passes=50)],
    ids=lambda scope: type(scope).__name__,
)
def test_no_request_is_a_reason_to_train_on(
    scope: Any, random_data: Any, small_model: Any, pair_requests: Any
) -> None:
    """From an original as training leaves it by default, whose own gap is many times that of the request, the rows of
    others move a little of the way that training on would take them.
    """
    full = random_data(400, 200, density=0.06, seed=5)
    original = fit(small_model(full, dim=3, objective=OBJECTIVE), full).model
    mask = (full.users == 7) & (np.random.default_rng(0).random(len(full)) < 0.5)
    outcome = AltEraser(scope).forget(original, full, pair_requests(full, mask))
    on = fit(original, outcome.remain, trainer=ALS(max_passes=500, tolerance=1e-9)).model
    assert outcome.loss_before - outcome.loss_after < 0.15 * (outcome.loss_before - on.loss(outcome.remain))
    for side, asked in ((Side.USERS, full.users[mask]), (Side.ITEMS, full.items[mask])):
        others = np.setdiff1d(np.arange(len(original.table(side))), asked)
        moved, way = (
            (each.table(side) - original.table(side))[others].norm() for each in (outcome.model, on)
        )
        assert moved < 0.1 * way


def test_a_scope_refuses_what_it_would_ignore() -> None:
    for name, given_ in (
        ("affected", {"solver": hf_newton}),
        ("affected", {"solve_shared": True}),
        ("forgetting", {"tolerance": 0.1}),
        ("forgetting", {"max_passes": 3}),
    ):
        with pytest.raises(SettingError, match=next(iter(given_))):
            named_scope(name, **given_)
    assert named_scope("all", max_passes=3) == AllRows(max_steps=3)
    assert named_scope("all", solver=hf_newton, tolerance=0.1) == Passes(hf_newton, tolerance=0.1)
    assert named_scope("all", solve_shared=True) == Passes(acceleration=None, solve_shared=True)
    assert named_scope("affected", tolerance=0.1) == AffectedRows(0.1)


def test_the_weight_that_a_repeated_pair_keeps_counts_for_affected_rows(small_model: Any) -> None:
    """Of pairs with two events one is forgotten: the model goes where training with what is left goes."""
    rng = np.random.default_rng(4)
    users, items = np.nonzero(rng.random((25, 18)) < 0.4)
    twice = rng.random(len(users)) < 0.5
    users, items = np.append(users, users[twice]), np.append(items, items[twice])
    times = np.append(np.zeros(len(twice)), np.ones(twice.sum())).astype(np.int64)
    full = Interactions.from_columns(
        pl.Series([f"u{u:02}" for u in users]),
        pl.Series([f"i{i:02}" for i in items]),
        pl.Series(1.0 + 3.0 * times),
        pl.Series(times),
        merge="sum",
    )
    original = converged(small_model(full, dim=2, objective=OBJECTIVE), full)
    requests = Requests.of([{"user": f"u{user:02}", "from": 1} for user in range(8)])
    outcome = AltEraser(AffectedRows(tolerance=1e-6)).forget(original, full, requests)
    best = converged(outcome.model, outcome.remain)
    assert outcome.loss_before > 1.001 * best.loss(outcome.remain)
    np.testing.assert_allclose(scores(outcome.model), scores(best), rtol=0, atol=1e-2)
    assert outcome.loss_after - best.loss(outcome.remain) < 1e-4 * outcome.loss_before


@pytest.mark.parametrize("gap", [0.0, 1.0])
def test_what_the_original_was_short_of_counts_as_much_as_is_asked(
    gap: float, full: Interactions, pair_requests: Any, half_trained: Any
) -> None:
    """With 0 affected rows go to the optimum; with 1 they stay about as far from it as the original was."""
    eraser = AltEraser(AffectedRows(training_gap=gap, tolerance=1e-4, max_steps=100))
    outcome = eraser.forget(half_trained, full, pair_requests(full, np.arange(len(full)) == 11))
    assert outcome.converged or gap
    own, left = half_trained.gradient_norm(full), outcome.model.gradient_norm(outcome.remain)
    assert left == pytest.approx(gap * own, abs=(0.05 + gap / 2) * own)


def test_the_losses_of_affected_rows_are_those_of_its_steps(
    full: Interactions, original: Any, chosen: Any, pair_requests: Any
) -> None:
    requests = pair_requests(full, chosen)
    outcome = AltEraser(AffectedRows(tolerance=1e-6)).forget(original, full, requests)
    assert outcome.cost.steps == len(outcome.losses) - 1 > 2
    assert all(after < before for before, after in pairwise(outcome.losses))
    assert outcome.losses[-1] == outcome.model.loss(outcome.remain)
