"""A compacted model is the same model without the rows of the forgotten."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import alteraser as ae
from alteraser.data.interactions import Interactions, Side
from alteraser.data.requests import Requests
from alteraser.models.bilinear import Bilinear
from alteraser.models.objective import Objective
from alteraser.train.als import ALS
from alteraser.train.fit import fit
from alteraser.unlearn.alteraser import AltEraser
from alteraser.versions.history import Batch
from alteraser.versions.version import Version, load_version

OBJECTIVES = {
    "as it comes": Objective(w0=0.3, l2=0.05, l2_scaling=0.7),
    "with constants": Objective(w0=0.3, l2=0.05, c_users=2.5, c_items=7.0),
    "weighed": Objective(w0=0.3, l2=0.05, user_activity=0.5, item_popularity=0.3, mean_user_count=4.0),
}
EXACT = ALS(max_passes=200, tolerance=1e-12)
FIRST, SECOND = Requests.of([{"user": "u3"}, {"user": "u7"}, {"item": "i2"}]), Requests.of([{"user": "u5"}])


@pytest.fixture(params=[(name, enmf) for name in OBJECTIVES for enmf in (False, True)], ids=str)
def stored(request: pytest.FixtureRequest, random_data: Any, small_model: Any) -> Version:
    """A model that has forgotten two users and an item."""
    name, enmf = request.param
    data = random_data(12, 9, confidences=True)
    model = small_model(data, enmf=enmf, objective=OBJECTIVES[name])
    outcome = AltEraser().forget(fit(model, data, trainer=EXACT).model, data, FIRST)
    return Version.of(outcome.model, outcome.remain, history=(Batch("ab" * 32, 3),), trainer=ALS())


@pytest.fixture
def remain(random_data: Any) -> Interactions:
    """What was left, as it would be read from a file: on rows of its own."""
    data = random_data(12, 9, confidences=True)
    left = data.without(FIRST.match(data, missing="error").mask).to_frame()
    return Interactions.from_columns(left["user_id"], left["item_id"], left["weight"])


def kept(stored: Version, side: Side) -> NDArray[np.int64]:
    vocabulary = stored.user_vocabulary if side is Side.USERS else stored.item_vocabulary
    return np.setdiff1d(np.arange(len(vocabulary)), vocabulary.tombstones)


def test_rows_of_the_forgotten_are_gone_and_the_others_as_they_were(stored: Version) -> None:
    small = ae.compact(stored)
    assert isinstance(small.model, Bilinear)
    assert isinstance(stored.model, Bilinear)
    assert (small.model.n_users, small.model.n_items) == (10, 8)
    assert small.user_vocabulary.ids.to_list() == [f"u{row}" for row in range(12) if row not in (3, 7)]
    assert small.item_vocabulary.ids.to_list() == [f"i{row}" for row in range(9) if row != 2]
    for side in Side:
        assert torch.equal(small.model.table(side), stored.model.table(side)[kept(stored, side)])
    assert torch.equal(small.model.h, stored.model.h)
    for name in ("data_digest", "read_options", "history", "training"):
        assert getattr(small, name) == getattr(stored, name)


def test_scores_loss_and_row_problems_stay_the_same(stored: Version, remain: Interactions) -> None:
    small = ae.compact(stored)
    assert isinstance(small.model, Bilinear)
    assert isinstance(stored.model, Bilinear)
    before, after = stored.aligned(remain), small.aligned(remain)
    scores = stored.model.scores(kept(stored, Side.USERS))[:, kept(stored, Side.ITEMS)]
    torch.testing.assert_close(small.model.scores(np.arange(10)), scores, rtol=1e-14, atol=1e-14)
    assert small.model.loss(after) == pytest.approx(stored.model.loss(before), rel=1e-13)
    assert small.model.gradient_norm(after) == pytest.approx(stored.model.gradient_norm(before), rel=1e-11)
    for side in Side:
        rows, wanted, found = kept(stored, side), stored.model.weigh(before), small.model.weigh(after)
        np.testing.assert_array_equal(found.l2[side], wanted.l2[side][rows])
        np.testing.assert_array_equal(found.missing[side], wanted.missing[side][rows])
        residual = stored.model.row_problems(side, before).residual(stored.model.table(side))[rows]
        torch.testing.assert_close(
            small.model.row_problems(side, after).residual(small.model.table(side)),
            residual,
            rtol=1e-11,
            atol=1e-13,
        )


@pytest.mark.parametrize("scope", ["forgetting", "affected", "all"])
def test_a_forgetting_goes_on_as_without_it(stored: Version, remain: Interactions, scope: Any) -> None:
    small, eraser = ae.compact(stored), AltEraser(scope=scope)
    wanted = eraser.forget(stored.model, stored.aligned(remain), SECOND)
    found = eraser.forget(small.model, small.aligned(remain), SECOND)
    assert found.remain.digest() == wanted.remain.digest()
    # Which rows are the most affected depends on how many there are; what is left of the gap is below its tolerance.
    if scope == "affected":
        gap = wanted.loss_before - wanted.loss_after
        assert found.loss_after == pytest.approx(wanted.loss_after, abs=0.002 * gap)
        return
    assert found.loss_after == pytest.approx(wanted.loss_after, rel=1e-9)
    for side in Side:
        rows = kept(stored, side)
        torch.testing.assert_close(
            found.model.table(side), wanted.model.table(side)[rows], rtol=1e-6, atol=1e-8
        )


def test_only_what_the_rows_gave_is_written_out(stored: Version) -> None:
    model, compacted = stored.model, ae.compact(stored).model
    assert isinstance(model, Bilinear)
    assert isinstance(compacted, Bilinear)
    objective, small = model.objective, compacted.objective
    if objective.c_users is None:
        assert (small.c_users, small.c_items) == (objective.w0 * 9, objective.w0 * 12)
        small = replace(small, c_users=None, c_items=None)
    assert small == objective


def test_a_model_without_tombstones_stays_as_it_is(random_data: Any, small_model: Any) -> None:
    data = random_data(empty=True)  # a row without interactions is no tombstone
    stored = Version.of(small_model(data), data)
    assert ae.compact(stored) is stored


def test_a_compacted_model_is_written_and_read(stored: Version, remain: Interactions, tmp_path: Path) -> None:
    ae.compact(stored).save(tmp_path / "model")
    back = load_version(tmp_path / "model")
    assert back.user_vocabulary.n_forgotten == back.item_vocabulary.n_forgotten == 0
    assert back.model.loss(back.aligned(remain)) == pytest.approx(
        stored.model.loss(stored.aligned(remain)), rel=1e-13
    )
    assert ae.compact(back) is back
