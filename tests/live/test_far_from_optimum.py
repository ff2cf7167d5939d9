"""A live model of an original far from its optimum: requests do not become training."""

from __future__ import annotations

import numpy as np
import pytest

from alteraser import ALS, MF, Interactions, LiveModel, Objective
from benchmarks.generated import generated


@pytest.fixture(scope="module")
def data() -> Interactions:
    return generated(12_000, np.random.default_rng(0))


@pytest.fixture(scope="module")
def original(data: Interactions) -> MF:
    """Of three passes; its loss is not convex around it."""
    start = MF.sized_for(data, dim=16, objective=Objective(w0=0.3, l2=0.003), rng=np.random.default_rng(0))
    return ALS(max_passes=3, tolerance=0).train(start, data, rng=None).model


def requests(data: Interactions) -> list[dict[str, str]]:
    popular = np.argsort(-np.bincount(data.items))[:10]
    users = np.random.default_rng(1).choice(data.n_users, 10, replace=False)
    return [*({"item": str(item)} for item in popular), *({"user": str(user)} for user in users)]


def test_no_request_visits_all_rows_again_and_again(data: Interactions, original: MF) -> None:
    for request in requests(data):
        live = LiveModel(original, data)
        erased = live.forget(request)
        assert erased.cost.rows_visited < 5 * (original.n_users + original.n_items)
        assert live.model.loss(live.remain) <= original.without_empty_rows(live.remain).loss(live.remain)


def test_what_a_clean_up_cannot_remove_is_not_tried_at_every_change(data: Interactions, original: MF) -> None:
    live = LiveModel(original, data, drift_limit=1e-9)
    visited = [live.forget(request).cost.rows_visited for request in requests(data)]
    assert sum(visited) < 5 * len(visited) * (original.n_users + original.n_items)
    assert live.drift().loss_gap > 0
