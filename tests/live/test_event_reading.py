"""What comes as events is taken as it was meant, or refused without naming anybody."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from alteraser import ALS, DataError, Interactions, LiveModel, SettingError, fit, interactions
from alteraser.data.interactions import Side
from alteraser.models.objective import Objective


@pytest.fixture(scope="module")
def weighted(random_data: Any) -> Interactions:
    frame = random_data(40, 30, density=0.2, seed=1).to_frame()
    return interactions(
        frame.with_columns(weight=pl.lit(1.0), time=pl.arange(len(frame))), weight="weight", time="time"
    )


@pytest.fixture(scope="module")
def live(weighted: Interactions, small_model: Any) -> LiveModel[Any]:
    start = small_model(weighted, dim=4, objective=Objective(w0=0.3, l2=0.5))
    return LiveModel(fit(start, weighted, trainer=ALS()).model, weighted)


def test_the_type_of_a_column_follows_from_all_dictionaries(live: LiveModel[Any]) -> None:
    events = [{"user": f"new{number}", "item": "i1", "weight": 1} for number in range(150)]
    learned = copy.deepcopy(live).learn([*events, {"user": "last", "item": "i1", "weight": 2.5}])
    assert learned.change.after.values.max() == 2.5


def test_dictionaries_that_do_not_fit_are_refused_without_an_id(live: LiveModel[Any]) -> None:
    with pytest.raises(DataError) as refused:
        live.learn(
            [{"user": 1, "item": "i1", "weight": 1.0}, {"user": ["secret"], "item": "i1", "weight": 1.0}]
        )
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def test_an_arrow_table_keeps_its_times_and_weights(live: LiveModel[Any]) -> None:
    table = pa.table({"user_id": ["new"], "item_id": ["i1"], "weight": [3.0], "time": [7]})
    grown = copy.deepcopy(live)
    assert grown.learn(table).change.after.values.tolist() == [3.0]
    assert grown.remain.to_frame().filter(pl.col("user_id") == "new")["time"].to_list() == [7]


def test_nothing_to_change_is_refused(live: LiveModel[Any]) -> None:
    with pytest.raises(SettingError, match="Nothing came"):
        live.apply()


def test_a_copy_answers_from_its_own_vectors(live: LiveModel[Any]) -> None:
    other = copy.deepcopy(live)
    user = other.remain.user_vocabulary.ids[0]
    other.learn([{"user": "new", "item": f"i{number}", "weight": 5.0} for number in range(3)])
    other.forget(
        {"user": user, "items": other.remain.to_frame().filter(user_id=user)["item_id"].to_list()[:2]}
    )
    told = other.recommend("new", k=5)
    row = other.remain.user_vocabulary.rows(pl.Series(["new"]))
    scores = other.model.scores(row)[0].numpy()
    items = other.remain.item_vocabulary.rows(told["item_id"])
    np.testing.assert_allclose(told["score"].to_numpy(), scores[items], rtol=1e-5)


def test_an_interrupted_request_leaves_a_drift_that_is_not_nothing(
    live: LiveModel[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = copy.deepcopy(live)
    monkeypatch.setattr(
        type(broken._refiner.steps), "half_step", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        broken.forget({"user": broken.remain.user_vocabulary.ids[3]})
    drift = broken.drift()
    assert drift.gradient_norm > 0
    assert drift.loss_gap > 0


def test_a_guest_is_weighed_as_users_are(random_data: Any, small_model: Any) -> None:
    frame = random_data(40, 30, density=0.2, seed=1).to_frame()
    data = interactions(frame, weight_offset=1.0, weight_slope=9.0)
    model = fit(small_model(data, dim=4, objective=Objective(w0=0.3, l2=0.5)), data, trainer=ALS()).model
    live = LiveModel(model, data)
    items = ["i1", "i2", "i5"]
    guest = live.recommend_for_items(items, k=5)
    live.learn([{"user": "new", "item": item} for item in items])
    assert data.by(Side.USERS).weights.max() == 10
    state = live._refiner.state
    rows = data.item_vocabulary.rows(pl.Series(items))
    exact = LiveModel(model, data)._refiner.state
    vector = exact.vector_for(np.sort(rows), np.full(3, 10.0, np.float32))
    wanted = exact.scores_of(vector)[data.item_vocabulary.rows(guest["item_id"])]
    np.testing.assert_allclose(guest["score"].to_numpy(), wanted, rtol=1e-5)
    assert state.n_entries == exact.n_entries + 3
