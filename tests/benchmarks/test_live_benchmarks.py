"""What the benchmarks of live models draw, hold and compare."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pytest

from alteraser.data.interactions import Interactions, Side
from alteraser.live.model import LiveModel
from alteraser.models.mf import MF
from alteraser.models.objective import Objective
from alteraser.train.als import ALS
from benchmarks import mixed, sequence
from benchmarks.gap import gap
from benchmarks.generated import generated
from benchmarks.learning import EVENTS, ITEM, KINDS, N_EVENTS, USER, EventSampler


@pytest.fixture(scope="module")
def data() -> Interactions:
    return generated(12_000, np.random.default_rng(0))


@pytest.fixture(scope="module")
def model(data: Interactions) -> MF:
    start = MF.sized_for(data, dim=8, objective=Objective(w0=0.1, l2=0.03), rng=np.random.default_rng(0))
    return ALS().train(start, data, rng=None).model


@pytest.mark.parametrize("kind", KINDS)
def test_new_events_are_new(kind: str, data: Interactions, model: MF) -> None:
    live = LiveModel(model, data)
    events = EventSampler(data).draw(kind, np.random.default_rng(3))
    live.learn(events)
    added = live.remain.to_frame().height - data.to_frame().height
    assert added == len(events) == N_EVENTS
    grown = live.model.n_users - model.n_users, live.model.n_items - model.n_items
    assert grown == {EVENTS: (0, 0), USER: (1, 0), ITEM: (0, 1)}[kind]
    assert len(live.remain.by(Side.USERS).columns) == len(data.by(Side.USERS).columns) + N_EVENTS


def test_mixed_changes_end_near_a_model_trained_anew(data: Interactions) -> None:
    figures = mixed.of("small", data, n_changes=60, n_users=50)
    assert figures["rbo"] > 0.95
    assert 0.95 < figures["rbo_of_two_retrained"] <= 1
    assert len(figures["gaps"]) == 20
    assert figures["gap_over_limit"] > 0
    assert set(figures["p50_ms_by_kind"]) >= {"new events", "some items of a user", "an account"}
    assert figures["scores_moved"] < 0.05
    assert figures["scores_moved_clean"] < 0.01


def test_bytes_held_are_those_of_arrays_counted_once() -> None:
    array = np.zeros(1000)
    alone = mixed.held_bytes({"a": array})
    assert 8000 <= alone < 9000
    assert mixed.held_bytes({"a": array, "b": array, "c": array[10:20]}) < alone + 500
    assert mixed.held_bytes({"a": array[:1]}) >= 8000  # a view keeps all of it


def test_a_sequence_tells_its_true_drift_at_moments_of_every_part() -> None:
    found = sequence.measure(None, n_requests=60, n_interactions=60_000, dim=8)
    first, *moments = found["moments"]
    assert first["after"] == 0
    assert first["true"] < 1e-6
    assert len(moments) == sequence.N_MOMENTS
    for part, moment in enumerate(moments):
        assert 12 * part < moment["after"] <= 12 * (part + 1)
        assert moment["true"] > 0
        assert moment["true"] / 3 < moment["estimate"] < 10 * moment["true"]
    assert found["summary"]["largest_true_drift"] == max(each["true"] for each in found["moments"])
    # A moment is the first above nine tenths of the limit, if there is one.
    assert max(each["estimate"] for each in moments) > 0.89 * found["summary"]["largest_drift"]


def test_moments_are_where_the_estimate_is_near_its_limit_or_else_at_its_highest() -> None:
    drift = (
        [0.1, 0.91, 0.95, 0.0]
        + [0.2, 0.9, 0.3, 0.0]
        + [0.0, 0.0, 0.0, 0.99]
        + 4 * [0.5]
        + [0.1, 0.2, 0.3, 0.4]
    )
    assert sequence.moments_of(drift, 1.0) == [2, 6, 12, 13, 20]
    assert sequence.moments_of([2 * each for each in drift], 2.0) == [2, 6, 12, 13, 20]


def test_what_has_a_gradient_of_its_own_is_no_optimum_to_measure_from() -> None:
    model, lowest = Mock(loss=5.0, gradient_norm=1.0), Mock(loss=3.0, gradient_norm=0.01)
    assert gap(model, lowest) == 2.0
    for left in (0.5, np.nan):
        with pytest.raises(ArithmeticError, match="as the optimum"):
            gap(model, Mock(loss=3.0, gradient_norm=left))
