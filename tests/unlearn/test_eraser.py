"""The session: many requests end where one batch ends, drift is told truly, nothing forgotten is left."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import torch

from alteraser import (
    ALS,
    AltEraser,
    Eraser,
    Interactions,
    JointNewton,
    Objective,
    Requests,
    SettingError,
    UnknownInteractions,
    fit,
)
from alteraser.data.interactions import Side

OBJECTIVE = Objective(w0=0.3, l2=0.6, l2_scaling=0.5)
EXACT = ALS(max_passes=300, tolerance=1e-14, acceleration=JointNewton(after=1e-3))


@pytest.fixture(scope="module")
def full(random_data: Any) -> Interactions:
    data: Interactions = random_data(80, 50, density=0.15, seed=6)
    return data


@pytest.fixture(scope="module", params=[False, True], ids=["mf", "enmf"])
def original(request: pytest.FixtureRequest, full: Interactions, small_model: Any) -> Any:
    return fit(small_model(full, dim=4, objective=OBJECTIVE, enmf=request.param), full, trainer=EXACT).model


def half_of(data: Interactions, user: int) -> Requests:
    row = data.by(Side.USERS)
    items = row.columns[row.starts[user] : row.starts[user + 1] : 2]
    return Requests.of([{"user": f"u{user}", "items": [f"i{item}" for item in items]}])


def test_requests_one_after_another_end_where_one_batch_ends(full: Interactions, original: Any) -> None:
    users = range(0, 60, 3)
    one_by_one = Eraser(original, full, tolerance=1e-3)
    for user in users:
        assert one_by_one.forget(half_of(full, user)).converged
    together = Eraser(original, full, tolerance=1e-3)
    together.forget(sum((half_of(full, user) for user in users), Requests.of([])))
    remain = together.remain
    assert one_by_one.remain.digest() == remain.digest()
    lowest = fit(together.model, remain, trainer=EXACT).model
    opened = original.loss(remain) - lowest.loss(remain)
    for eraser in (one_by_one, together):
        assert eraser.model.loss(remain) - lowest.loss(remain) < 1e-2 * opened
        eraser.clean_up()
    everyone = np.arange(full.n_users)
    torch.testing.assert_close(
        one_by_one.model.scores(everyone), together.model.scores(everyone), rtol=0, atol=1e-2
    )


def test_where_nothing_is_owed_a_clean_up_changes_nothing(full: Interactions, original: Any) -> None:
    eraser = Eraser(original, full)
    assert eraser.clean_up().loss_gap == 0
    for side in Side:
        torch.testing.assert_close(eraser.model.table(side), original.table(side), rtol=0, atol=0)


def test_drift_is_told_truly_and_cleaned_up(full: Interactions, original: Any) -> None:
    eraser = Eraser(original, full, tolerance=0.2, drift_limit=np.inf, training_gap=0.0)
    for user in range(40):
        eraser.forget(half_of(full, user))
    drift, model, remain = eraser.drift(), eraser.model, eraser.remain
    assert drift.gradient_norm == pytest.approx(model.gradient_norm(remain), rel=1e-6)
    lowest = fit(model, remain, trainer=EXACT).model.loss(remain)
    gap = model.loss(remain) - lowest
    assert gap / 4 < drift.loss_gap < gap * 4
    after = eraser.clean_up()
    assert eraser.model.loss(remain) - lowest < 0.1 * gap
    assert after.gradient_norm == pytest.approx(eraser.model.gradient_norm(remain), rel=1e-6)
    assert after.loss_gap < drift.loss_gap


def test_a_passed_limit_brings_a_clean_up(full: Interactions, original: Any) -> None:
    limit = 1e-5
    eraser = Eraser(original, full, tolerance=0.3, drift_limit=limit)
    cleaned = 0
    for user in range(60):
        erased = eraser.forget(half_of(full, user))
        cleaned += erased.cleaned_up
        assert erased.drift.loss_gap <= limit * original.loss(full)
    assert 0 < cleaned < 60


def test_a_user_who_forgets_all_is_nowhere(full: Interactions, original: Any) -> None:
    eraser = Eraser(original, full)
    eraser.forget(Requests.of([{"user": "u7"}]))
    assert (eraser.model.users[7] == 0).all()
    assert "u7" not in eraser.remain.user_vocabulary.ids.to_list()
    assert "u7" not in repr(eraser)
    with pytest.raises(UnknownInteractions):
        eraser.forget(Requests.of([{"user": "u7"}]))


def test_the_original_is_not_kept(full: Interactions, original: Any) -> None:
    copy = original.with_parameters({name: value.clone() for name, value in original.parameters().items()})
    tables = [weakref.ref(copy.users), weakref.ref(copy.items)]
    eraser = Eraser(copy, full)
    del copy
    gc.collect()
    assert [table() for table in tables] == [None, None]
    before = eraser.model.users[3].clone()
    eraser.forget(half_of(full, 3))
    assert not torch.equal(eraser.model.users[3], before)


def test_a_refused_request_changes_nothing(full: Interactions, original: Any) -> None:
    eraser = Eraser(original, full)
    with pytest.raises(UnknownInteractions):
        eraser.forget(half_of(full, 3) + Requests.of([{"user": "nobody"}]))
    assert eraser.remain.digest() == full.digest()
    assert torch.equal(eraser.model.users, original.users)
    ignored = eraser.forget(Requests.of([{"user": "nobody"}]), missing="ignore")
    assert (ignored.match.n_missing, ignored.rows_visited) == (1, 0)
    assert torch.equal(eraser.model.items, original.items)


def test_a_budget_ends_it_early(full: Interactions, original: Any) -> None:
    erased = Eraser(original, full, tolerance=1e-3, budget_seconds=1e-9, drift_limit=np.inf).forget(
        half_of(full, 3)
    )
    assert not erased.converged
    thorough = Eraser(original, full, tolerance=1e-3, drift_limit=np.inf).forget(half_of(full, 3))
    assert thorough.converged
    assert thorough.rows_visited > erased.rows_visited > 0


@pytest.mark.parametrize(
    "setting", [{"tolerance": 0.0}, {"budget_seconds": 0.0}, {"drift_limit": -1.0}, {"training_gap": 2.0}]
)
def test_settings_out_of_range_are_refused(setting: Any, full: Interactions, original: Any) -> None:
    with pytest.raises(SettingError, match=next(iter(setting))):
        Eraser(original, full, **setting)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_the_session_does_what_the_scope_does(weighted: bool, random_data: Any, small_model: Any) -> None:
    data = random_data(60, 40, confidences=weighted, seed=8)
    original = fit(small_model(data, dim=4, objective=OBJECTIVE, enmf=False), data, trainer=EXACT).model
    requested = half_of(data, 5) + half_of(data, 9)
    outcome = AltEraser(scope="affected", tolerance=0.02).forget(original, data, requested)
    eraser = Eraser(original, data, tolerance=0.02, drift_limit=np.inf)
    eraser.forget(requested)
    torch.testing.assert_close(eraser.model.users, outcome.model.users)
    torch.testing.assert_close(eraser.model.items, outcome.model.items)
    assert outcome.cost.loss_after < outcome.cost.loss_before
