"""The built-in models keep the promises of every protocol that they are said to follow."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import pytest
import torch

import alteraser as ae
from alteraser.data.interactions import Interactions, Side
from alteraser.measure.baselines import MostPopular
from alteraser.models.enmf import ENMF
from alteraser.models.mf import MF
from alteraser.models.objective import Objective
from alteraser.testing import (
    BatchTrainableContract,
    QuadraticContract,
    RecommenderContract,
    SimilarContract,
    StorableContract,
)
from alteraser.testing.base import small_data

OBJECTIVES = {
    "uniform": Objective(w0=0.3, l2=0.05),
    "weighed": Objective(w0=0.4, l2=0.2, l2_scaling=0.5, user_activity=0.5, item_popularity=0.3),
    "heavy-missing": Objective(w0=2.0, l2=0.1, l2_scaling=0.0),
}


class OfTheFamily(QuadraticContract, BatchTrainableContract, StorableContract, SimilarContract):
    @pytest.fixture(params=OBJECTIVES, autouse=True)
    def _objective(self, request: pytest.FixtureRequest) -> None:
        self.objective = OBJECTIVES[request.param]

    @abstractmethod
    def make(self, data: Interactions) -> MF | ENMF: ...


def tables(data: Interactions) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(1)
    users, items = (torch.from_numpy(rng.normal(0, 0.5, (n, 3))) for n in (data.n_users, data.n_items))
    return users, items


class TestMF(OfTheFamily):
    def make(self, data: Interactions) -> MF:
        return MF(*tables(data), self.objective)


class TestENMF(OfTheFamily):
    def make(self, data: Interactions) -> ENMF:
        return ENMF(*tables(data), self.objective, torch.tensor([0.7, 1.9, 1.1]).double())


class TestSinglePrecision(RecommenderContract):
    def make(self, data: Interactions) -> MF:
        return ae.fit(MF.sized_for(data, dim=4, rng=np.random.default_rng(0)), data).model


class TestMostPopular(RecommenderContract):
    def make(self, data: Interactions) -> MostPopular:
        return MostPopular.of(data)


def test_what_follows_from_the_rest_is_right() -> None:
    """Who inherits from `Factored` need not write these."""
    data = small_data(empty=True)
    model = MF(*tables(data), OBJECTIVES["uniform"])
    assert ae.Factored.gradient_norm(model, data) == pytest.approx(model.gradient_norm(data), rel=1e-12)
    assert ae.Factored.solve_shared(model, data) is model
    kept = ae.Factored.without_empty_rows(model, data)
    assert (kept.table(Side.USERS)[-1] == 0).all()
