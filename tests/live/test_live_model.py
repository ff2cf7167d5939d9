"""A live model: many requests end where one batch ends, drift is told truly, nothing forgotten is left."""

from __future__ import annotations

import gc
import weakref
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from alteraser import (
    ALS,
    MF,
    AffectedRows,
    AltEraser,
    AutoRows,
    Interactions,
    JointNewton,
    LiveModel,
    Objective,
    Requests,
    SettingError,
    UnknownInteractions,
    fit,
)
from alteraser.data.interactions import Side
from alteraser.data.synthetic import synthetic
from alteraser.live.strategies import JointSteps

OBJECTIVE = Objective(w0=0.3, l2=0.6, l2_scaling=0.5)
EXACT = ALS(max_passes=300, tolerance=1e-14, acceleration=JointNewton(switch_below=1e-3))


@pytest.fixture(scope="module")
def full(random_data: Any) -> Interactions:
    data: Interactions = random_data(80, 50, density=0.15, seed=6)
    return data


KINDS = [(enmf, dtype) for enmf in (False, True) for dtype in (torch.float64, torch.float32)]


@pytest.fixture(scope="module", params=KINDS, ids=["mf", "mf single", "enmf", "enmf single"])
def original(request: pytest.FixtureRequest, full: Interactions, small_model: Any) -> Any:
    """At its optimum, to the last digit that its numbers have."""
    enmf, dtype = request.param
    model = fit(small_model(full, dim=4, objective=OBJECTIVE, enmf=enmf), full, trainer=EXACT).model
    return model.with_parameters({name: value.to(dtype) for name, value in model.parameters().items()})


@pytest.fixture(scope="module")
def synthetic_model() -> tuple[MF, Interactions]:
    """Some hundred users with tastes, as training leaves their model by default."""
    data = synthetic(np.random.default_rng(1), n_users=300, n_items=120, mean_interactions=15).data
    start = MF.sized_for(data, dim=8, objective=Objective(w0=0.1, l2=0.02), rng=np.random.default_rng(0))
    return fit(start, data).model, data


def in_double(model: Any) -> Any:
    return model.with_parameters({name: value.double() for name, value in model.parameters().items()})


def lowest(model: Any, remain: Interactions) -> float:
    """The loss where training in double precision ends from here."""
    return float(fit(in_double(model), remain, trainer=EXACT).model.loss(remain))


def half_of(data: Interactions, user: int) -> Requests:
    row = data.by(Side.USERS)
    items = row.columns[row.starts[user] : row.starts[user + 1] : 2]
    return Requests.of([{"user": f"u{user}", "items": [f"i{item}" for item in items]}])


def test_requests_one_after_another_end_where_one_batch_ends(full: Interactions, original: Any) -> None:
    users = range(0, 60, 3)
    one_by_one = LiveModel(original, full, tolerance=6e-3)
    for user in users:
        assert one_by_one.forget(half_of(full, user)).converged
    together = LiveModel(original, full, tolerance=6e-3)
    together.forget(sum((half_of(full, user) for user in users), Requests.of([])))
    remain = together.remain
    assert one_by_one.remain.digest() == remain.digest()
    best = lowest(together.model, remain)
    opened = original.loss(remain) - best
    for live in (one_by_one, together):
        # Each of twenty requests may leave 0.6 % of what it opened alone; together they opened less, and it adds up.
        assert live.model.loss(remain) - best < 1.5e-2 * opened
        live.clean_up()
    everyone = np.arange(full.n_users)
    torch.testing.assert_close(
        one_by_one.model.scores(everyone), together.model.scores(everyone), rtol=0, atol=1e-2
    )


def test_where_nothing_is_deferred_a_clean_up_changes_nothing(full: Interactions, original: Any) -> None:
    live = LiveModel(original, full)
    assert live.clean_up().loss_gap == 0
    for side in Side:
        torch.testing.assert_close(live.model.table(side), original.table(side), rtol=0, atol=0)


def test_drift_is_told_truly_and_cleaned_up(full: Interactions, original: Any) -> None:
    live = LiveModel(original, full, tolerance=0.99, drift_limit=np.inf, training_gap=0.0)
    for user in range(40):
        live.forget(half_of(full, user))
    drift, model, remain = live.drift(), live.model, live.remain
    exact = 1e-6 if model.dtype is torch.float64 else 1e-2  # forty requests' rounding errors, added up
    assert drift.gradient_norm == pytest.approx(in_double(model).gradient_norm(remain), rel=exact)
    best = lowest(model, remain)
    gap = model.loss(remain) - best
    # The norm is exact; what it is worth was seen in the rows of each request, one by one, and is told safely.
    assert gap < drift.loss_gap < 20 * gap
    after = live.clean_up()
    assert live.model.loss(remain) - best < 0.1 * gap
    assert after.gradient_norm == pytest.approx(in_double(live.model).gradient_norm(remain), rel=exact)
    assert after.loss_gap < drift.loss_gap


def test_a_clean_up_that_is_asked_for_leaves_next_to_nothing(full: Interactions, original: Any) -> None:
    """A clean-up in passing leaves half of the limit."""
    live = LiveModel(original, full, drift_limit=1e-3)
    for user in range(40):
        live.forget(half_of(full, user))
    limit = 1e-3 * original.loss(full)
    assert live.drift().loss_gap > 0.01 * limit
    assert live.clean_up().loss_gap <= 1e-3 * limit
    model = live.model
    assert model.loss(live.remain) - lowest(model, live.remain) <= 1e-3 * limit


def test_a_passed_limit_brings_a_clean_up(full: Interactions, original: Any) -> None:
    limit = 1e-3
    live = LiveModel(original, full, tolerance=0.3, drift_limit=limit)
    cleaned = 0
    for user in range(60):
        erased = live.forget(half_of(full, user))
        cleaned += erased.cleaned_up
        assert erased.drift.loss_gap <= limit * original.loss(full)
    assert 0 < cleaned < 60


def test_a_user_who_forgets_all_is_nowhere(full: Interactions, original: Any) -> None:
    live = LiveModel(original, full)
    live.forget(Requests.of([{"user": "u7"}]))
    assert (live.model.users[7] == 0).all()
    assert "u7" not in live.remain.user_vocabulary.ids.to_list()
    assert "u7" not in repr(live)
    with pytest.raises(UnknownInteractions):
        live.forget(Requests.of([{"user": "u7"}]))


def test_the_original_is_not_kept(full: Interactions, original: Any) -> None:
    copy = original.with_parameters({name: value.clone() for name, value in original.parameters().items()})
    tables = [weakref.ref(copy.users), weakref.ref(copy.items)]
    live = LiveModel(copy, full)
    del copy
    gc.collect()
    assert [table() for table in tables] == [None, None]
    before = live.model.users[3].clone()
    live.forget(half_of(full, 3))
    assert not torch.equal(live.model.users[3], before)


def test_a_refused_request_changes_nothing(full: Interactions, original: Any) -> None:
    live = LiveModel(original, full)
    with pytest.raises(UnknownInteractions):
        live.forget(half_of(full, 3) + Requests.of([{"user": "nobody"}]))
    assert live.remain.digest() == full.digest()
    assert torch.equal(live.model.users, original.users)
    ignored = live.forget(Requests.of([{"user": "nobody"}]), missing="ignore")
    assert (ignored.requests.n_missing, ignored.cost.rows_visited) == (1, 0)
    assert torch.equal(live.model.items, original.items)


def test_a_budget_ends_it_early(full: Interactions, original: Any) -> None:
    erased = LiveModel(original, full, tolerance=1e-3, budget_seconds=1e-9, drift_limit=np.inf).forget(
        half_of(full, 3)
    )
    assert not erased.converged
    thorough = LiveModel(original, full, tolerance=1e-3, drift_limit=np.inf).forget(half_of(full, 3))
    assert thorough.converged
    assert thorough.cost.rows_visited > erased.cost.rows_visited > 0


@pytest.mark.parametrize(
    "setting", [{"tolerance": 0.0}, {"budget_seconds": 0.0}, {"drift_limit": -1.0}, {"training_gap": 2.0}]
)
def test_settings_out_of_range_are_refused(setting: Any, full: Interactions, original: Any) -> None:
    with pytest.raises(SettingError, match=next(iter(setting))):
        LiveModel(original, full, **setting)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_a_live_model_does_what_the_scope_does(weighted: bool, random_data: Any, small_model: Any) -> None:
    data = random_data(60, 40, confidences=weighted, seed=8)
    original = fit(small_model(data, dim=4, objective=OBJECTIVE, enmf=False), data, trainer=EXACT).model
    requested = half_of(data, 5) + half_of(data, 9)
    outcome = AltEraser(AutoRows(0.02)).forget(original, data, requested)
    live = LiveModel(original, data, tolerance=0.02, drift_limit=np.inf)
    live.forget(requested)
    torch.testing.assert_close(live.model.users, outcome.model.users)
    torch.testing.assert_close(live.model.items, outcome.model.items)
    assert outcome.loss_after < outcome.loss_before


@pytest.mark.parametrize("scope", ["auto", "affected", "live"])
def test_the_default_tolerance_is_kept(scope: str, full: Interactions, original: Any) -> None:
    """6 % of the gap that a batch opened, 1.2 % with affected rows, or 30 % in a live model."""
    requested = half_of(full, 5) + half_of(full, 9) + half_of(full, 30)
    if scope == "live":
        live = LiveModel(original, full)
        assert live.forget(requested).converged
        model, remain, share = live.model, live.remain, 0.3
    else:
        outcome = AltEraser(scope=scope).forget(original, full, requested)
        assert outcome.converged
        model, remain, share = outcome.model, outcome.remain, {"auto": 0.06, "affected": 0.012}[scope]
    best = lowest(model, remain)
    assert model.loss(remain) - best < share * (original.loss(remain) - best)


def test_users_who_forget_are_solved_last(full: Interactions, original: Any) -> None:
    """After steps of many rows their own are at their minimum, to rounding, given the items as they then are."""
    users = np.array([5, 9, 30, 44])
    requested = sum((half_of(full, user) for user in users), Requests.of([]))
    outcome = AltEraser(AffectedRows(6e-4)).forget(original, full, requested)
    assert outcome.cost.steps > 2
    model = in_double(outcome.model)
    residual = model.row_problems(Side.USERS, outcome.remain).residual(model.users)
    others = np.setdiff1d(np.arange(full.n_users), users)
    rounding = 1e-9 if original.dtype is torch.float64 else 1e-5
    assert residual[users].abs().max() < rounding
    assert residual[others].abs().max() > 10 * rounding


@pytest.fixture(scope="module")
def private(build: Any) -> Interactions:
    """User 5 alone has items 36 to 39, and no others."""
    rng = np.random.default_rng(0)
    matrix = rng.random((60, 40)) < 0.2
    matrix[5], matrix[:, 36:] = False, False
    matrix[5, 36:] = True
    data: Interactions = build(matrix)
    return data


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_what_a_user_with_private_items_leaves_is_seen(
    dtype: torch.dtype, private: Interactions, small_model: Any
) -> None:
    """All rows of the request become zero; the others feel it through the missing entries alone."""
    start = small_model(private, dim=8, objective=Objective(w0=0.3, l2=0.2, l2_scaling=0.0))
    original = fit(start, private, trainer=EXACT).model
    original = original.with_parameters(
        {name: value.to(dtype) for name, value in original.parameters().items()}
    )
    account = Requests.of([{"user": "u5"}])
    hasty = LiveModel(original, private, budget_seconds=1e-9, drift_limit=np.inf)
    erased = hasty.forget(account)
    assert not erased.converged
    best = lowest(hasty.model, hasty.remain)
    gap = hasty.model.loss(hasty.remain) - best
    assert gap < erased.drift.loss_gap < 20 * gap
    live = LiveModel(original, private)
    assert live.forget(account).converged
    zeroed = original.without_empty_rows(live.remain)
    left = live.model.loss(live.remain) - best
    assert left < 0.05 * (original.loss(live.remain) - best)
    assert left < 0.3 * (zeroed.loss(live.remain) - best)
    # A request that leaves nothing at all does not make what others left forgotten.
    before = hasty.drift().loss_gap
    hasty.forget(Requests.of([{"user": "nobody"}]), missing="ignore")
    assert hasty.drift().loss_gap == before


@pytest.mark.parametrize("request_", [{"user": "u7"}, {"item": "i3"}], ids=["account", "item"])
def test_what_emptying_a_row_is_worth_is_part_of_the_gap(
    request_: dict[str, str], random_data: Any, small_model: Any
) -> None:
    """A whole account or item does not visit all rows, let alone again and again, and does not leave the rest."""
    data = random_data(400, 200, seed=3, density=0.03)
    original = fit(small_model(data, dim=4, objective=OBJECTIVE), data, trainer=EXACT).model
    live = LiveModel(original, data)
    erased = live.forget(Requests.of([request_]))
    assert erased.converged
    assert erased.cost.rows_visited < 400 + 200
    remain = live.remain
    best = lowest(live.model, remain)
    left = live.model.loss(remain) - best
    assert left < 0.05 * (original.loss(remain) - best)
    assert left < 0.3 * (original.without_empty_rows(remain).loss(remain) - best)


def test_when_all_users_are_alike_one_who_forgets_gets_a_dimension(build: Any, small_model: Any) -> None:
    """One dimension holds all there is; whoever is no longer like the others needs another, where gradients are zero.

    It is compared with training from scratch, which finds it.
    """
    matrix = np.zeros((200, 20), dtype=np.bool_)
    matrix[:, :15] = True
    data = build(matrix)
    objective = Objective(w0=0.3, l2=0.5, l2_scaling=0.0)
    original = fit(small_model(data, dim=4, objective=objective), data, trainer=EXACT).model
    requested = Requests.of([{"user": "u3", "items": [f"i{row}" for row in range(7)]}])
    before = original.users.clone()
    live = LiveModel(original, data)
    assert live.forget(requested).converged
    remain = live.remain
    best = min(
        fit(small_model(remain, dim=4, objective=objective, seed=seed), remain, trainer=EXACT).model.loss(
            remain
        )
        for seed in range(3)
    )
    opened = original.loss(remain) - best
    assert live.model.loss(remain) - best < 0.06 * opened
    for unlearner in (AltEraser(), AltEraser(scope="affected"), AltEraser(scope="all")):
        outcome = unlearner.forget(original, data, requested)
        assert outcome.converged
        assert outcome.loss_after - best < 0.06 * opened
        assert torch.equal(original.users, before)


def test_a_clean_up_keeps_to_the_budget(full: Interactions, original: Any) -> None:
    live = LiveModel(original, full, budget_seconds=1e-9, drift_limit=1e-12)
    erased = live.forget(half_of(full, 3))
    assert not erased.cleaned_up
    assert not erased.converged
    assert erased.cost.rows_visited == 1
    assert live.clean_up().loss_gap < 0.1 * erased.drift.loss_gap  # unless it is asked for


def test_from_the_beginning_the_way_to_the_optimum_is_drift_if_it_is_to_count(
    full: Interactions, small_model: Any
) -> None:
    start = small_model(full, dim=4, objective=OBJECTIVE)
    short = fit(start, full, trainer=ALS(max_passes=4, tolerance=0.0, acceleration=None)).model
    assert LiveModel(short, full).drift().loss_gap == 0
    gap = short.loss(full) - lowest(short, full)
    live = LiveModel(short, full, training_gap=0.0)
    # Passes leave what rows can only do together; before any step it is told from the rows one by one.
    assert gap / 20 < live.drift().loss_gap < gap
    live.clean_up()
    assert live.model.loss(full) - lowest(short, full) < 0.1 * gap


def test_nothing_forgotten_is_left_in_memory(small_model: Any) -> None:
    """No array of a live model holds the weights and times that only forgotten events had, nor who was touched."""
    matrix = np.random.default_rng(5).random((40, 30)) < 0.3
    matrix[7, 25:] = True
    users, items = np.nonzero(matrix)
    of_seven = users == 7
    weights = np.where(of_seven, 3.140625, 1.0)
    times = np.where(of_seven, 987_654_321, 5)
    data = Interactions.from_columns(
        pl.Series([f"u{u:02}" for u in users]),
        pl.Series([f"i{i:02}" for i in items]),
        pl.Series(weights),
        pl.Series(times),
        merge="max",
    )
    live = LiveModel(fit(small_model(data, dim=3, objective=OBJECTIVE), data).model, data)
    assert {3.140625, 987_654_321} <= held_by(live)
    live.forget(Requests.of([{"user": "u07"}]))
    assert not {3.140625, 987_654_321} & held_by(live)
    for state in live._refiner.state.sides.values():
        assert (state._positions == -1).all()
    disturbance = live._refiner.state.disturbance
    for side in Side:
        assert len(disturbance.moved(side)) == len(disturbance.noted(side)[0]) == 0
        assert (disturbance._moved[side].places == -1).all()


def held_by(live: LiveModel[Any]) -> set[float]:
    """Every number in every array that can be reached from a live model."""
    numbers: set[float] = set()
    seen, todo = set(), [live]
    while todo:
        each = todo.pop()
        if id(each) in seen or isinstance(each, type | ModuleType | FunctionType):
            continue
        seen.add(id(each))
        if isinstance(each, np.ndarray):
            numbers.update(np.unique(each).tolist())
        todo += gc.get_referents(each)
    return numbers


@pytest.mark.timeout(60)
def test_requests_end_whatever_the_limit_of_drift_is(
    synthetic_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where what is left would do, what was let go would not, and no half step is to be had."""
    original, data = synthetic_model
    item = data.item_vocabulary.ids[0]
    next_step, too_much_let_go = JointSteps.next, []

    def watched(self: JointSteps, done: Any, left: float, wanted: float, **more: Any) -> None:
        too_much_let_go.append(left <= wanted and done.steps > 0 and not more["enough"])
        next_step(self, done, left, wanted, **more)

    monkeypatch.setattr(JointSteps, "next", watched)
    for limit in np.geomspace(2e-5, 5e-4, 150):
        erased = LiveModel(original, data, drift_limit=float(limit)).forget({"item": item})
        assert erased.drift.loss_gap <= limit * original.loss(data)
    assert any(too_much_let_go)
