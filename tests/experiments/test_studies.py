"""The studies: requests of the size asked for, and every solver on the same request."""

from __future__ import annotations

import numpy as np
import pytest

from alteraser.data.interactions import Interactions, Side
from alteraser.data.synthetic import synthetic
from alteraser.experiments import studies
from alteraser.experiments.methods import AH_NEWTON, RETRAIN
from alteraser.experiments.run import Case
from alteraser.experiments.settings import Settings
from alteraser.experiments.tables import study_table
from alteraser.optim.solvers import SOLVERS

SMALL = Settings(dim=4, l2=0.05)


@pytest.fixture(scope="module")
def data() -> Interactions:
    return synthetic(np.random.default_rng(0), n_users=120, n_items=60, mean_interactions=12).data


def test_random_requests_are_as_many_as_asked_and_take_nobody_everything(data: Interactions) -> None:
    requests = studies.random_requests(data, 500, np.random.default_rng(1))
    mask = requests.match(data).mask
    assert mask.sum() == 500
    assert (data.without(mask).by(Side.USERS).counts[data.by(Side.USERS).occupied] > 0).all()


def test_the_study_of_sizes_compares_with_retraining(
    data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(studies, "SIZES", (1, 0.1))
    records = studies.sizes_study(
        Case("ml-1m", "noise", "converged", 0), data, SMALL, announce=lambda _: None
    )
    n = round(0.1 * 0.8 * len(data))
    assert {(r["size"], r["method"]) for r in records if r["size"] == 1} == {(1, RETRAIN), (1, AH_NEWTON)}
    assert all(abs(r["size"] - n) <= 10 for r in records if r["size"] != 1)
    assert all(r["rbo"]["10"] == 1 for r in records if r["method"] == RETRAIN)
    assert len(study_table("sizes", records).rows) == 4


def test_the_study_of_solvers_has_them_all(data: Interactions) -> None:
    records = studies.solvers_study(
        Case("ml-1m", "noise", "converged", 0), data, SMALL, announce=lambda _: None
    )
    assert [record["solver"] for record in records] == list(SOLVERS)
    losses = {record["solver"]: record["loss_after"] for record in records}
    assert losses["hf-newton"] == pytest.approx(losses["ah-newton"], rel=1e-3)
