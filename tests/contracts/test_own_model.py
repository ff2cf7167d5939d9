"""A model of somebody else, with nothing but `Factored`: checked by its suite, trained, made to forget, compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import alteraser as ae
from alteraser.data.csr import CSR
from alteraser.testing.unlearner import REQUESTS, forgotten, full_data


@dataclass(frozen=True, eq=False, repr=False)
class Quartic(ae.Factored):
    """Scores p·q; Σ_R w (1 − ŷ)² + Σ_∉R 0.3 ŷ² + 0.2 Σ_all ŷ⁴ + 0.1 Σ ‖·‖²: rows without a closed form, by autograd."""

    users: Tensor
    items: Tensor
    sides: ClassVar[tuple[ae.Side, ...]] = (ae.Side.USERS, ae.Side.ITEMS)

    @classmethod
    def random(cls, data: ae.Interactions) -> Quartic:
        rng = np.random.default_rng(3)
        users, items = (torch.from_numpy(rng.normal(0, 0.5, (n, 3))) for n in (data.n_users, data.n_items))
        return cls(users, items)

    @property
    def n_users(self) -> int:
        return len(self.users)

    @property
    def n_items(self) -> int:
        return len(self.items)

    def scores(self, users: NDArray[np.int64]) -> Tensor:
        return self.users[users] @ self.items.T

    def pair_scores(self, users: NDArray[np.signedinteger], items: NDArray[np.signedinteger]) -> Tensor:
        return (self.users[users] * self.items[items]).sum(1)

    def check_belongs(self, data: ae.Interactions) -> None:
        if (data.n_users, data.n_items) != (self.n_users, self.n_items):
            raise ae.MismatchError("The data has rows for others.")

    def table(self, side: ae.Side) -> Tensor:
        return self.parameters()[side.value]

    def parameters(self) -> dict[str, Tensor]:
        return {"users": self.users, "items": self.items}

    def with_parameters(self, parameters: dict[str, Tensor]) -> Quartic:
        return replace(self, **parameters)

    def with_rows(self, side: ae.Side, rows: NDArray[np.int64], vectors: Tensor) -> Quartic:
        table = self.table(side).clone()
        table[rows] = vectors
        return self.with_parameters({**self.parameters(), side.value: table})

    def empty_row(self, side: ae.Side) -> Tensor:
        return torch.zeros_like(self.table(side)[0])

    def fresh(self, rng: np.random.Generator) -> Quartic:
        drawn = {
            k: torch.from_numpy(rng.normal(0, 0.5, tuple(v.shape))) for k, v in self.parameters().items()
        }
        return self.with_parameters(drawn)

    def row_problems(self, side: ae.Side, data: ae.Interactions, **_: Any) -> QuarticSide:
        self.check_belongs(data)
        return QuarticSide(self.table(side.other), data.by(side))

    def loss(self, data: ae.Interactions, **_: Any) -> float:
        rows = self.row_problems(ae.Side.USERS, data).block(np.arange(self.n_users))
        return float(rows.value(self.users).sum() + 0.1 * self.items.square().sum())


@dataclass(frozen=True, eq=False)
class QuarticSide:
    """The rows of a side, with or without their interactions."""

    other: Tensor
    data: CSR | None

    @property
    def terms(self) -> QuarticSide:
        return QuarticSide(self.other, None)

    def on(self, data: CSR) -> QuarticSide:
        return QuarticSide(self.other, data)

    def block(self, rows: NDArray[np.int64]) -> QuarticRows:
        assert self.data is not None
        csr = self.data
        weights = torch.full((len(csr), len(self.other)), 0.3).double()
        wanted = torch.zeros_like(weights)
        weights[csr.owners(), csr.columns] = torch.from_numpy(csr.weights).double()
        wanted[csr.owners(), csr.columns] = 1.0
        return QuarticRows(self.other, weights[rows], wanted[rows])


@dataclass(frozen=True, eq=False)
class QuarticRows(ae.RowProblem):
    other: Tensor
    weights: Tensor
    wanted: Tensor

    def value(self, x: Tensor) -> Tensor:
        scores = x @ self.other.T
        fit = (self.weights * (self.wanted - scores).square() + 0.2 * scores**4).sum(1)
        return fit + 0.1 * x.square().sum(1)


class TestQuartic(ae.testing.FactoredContract):
    def make(self, data: ae.Interactions) -> Quartic:
        return Quartic.random(data)


TRAINER = ae.ALS(max_passes=15, solver=ae.hf_newton)
WAYS: dict[str, Any] = {
    "alteraser": lambda: ae.AltEraser(solver=ae.hf_newton),
    "retrain": lambda: ae.Retrain(np.random.default_rng(9), TRAINER),
}


class TestForgetting(ae.testing.UnlearnerContract):
    @pytest.fixture(params=WAYS, autouse=True)
    def _way(self, request: pytest.FixtureRequest) -> None:
        self.way, self.lowers_the_loss = request.param, request.param == "alteraser"

    def make(self) -> ae.Unlearner:
        unlearner: ae.Unlearner = WAYS[self.way]()
        return unlearner

    def originals(self) -> Mapping[str, Any]:
        return {"quartic": original()}


def original() -> Quartic:
    return ae.fit(Quartic.random(full_data()), full_data(), trainer=TRAINER).model


def test_forgetting_comes_near_retraining() -> None:
    full, model = full_data(), original()
    unlearned, retrained = (make().forget(model, full, REQUESTS) for make in WAYS.values())
    assert unlearned.loss_after < unlearned.loss_before
    assert unlearned.loss_after <= 1.02 * retrained.loss_after
    gone = forgotten(full)
    before, after = (
        m.pair_scores(full.users[gone], full.items[gone]).mean() for m in (model, unlearned.model)
    )
    assert after < 0.75 * before
    report = ae.compare({"original": model, "unlearned": unlearned.model}, remain=unlearned.remain)
    assert report.loss["unlearned"] == unlearned.model.loss(unlearned.remain)


def test_what_it_cannot_do_is_said_with_what_to_do_instead() -> None:
    model, data = original(), full_data()
    with pytest.raises(
        ae.SettingError, match=r"AdamW needs .*BatchTrainable; Quartic is not.*batch_gradients.* ALS"
    ):
        ae.fit(model, data, trainer=ae.AdamW(), rng=np.random.default_rng(0))
    with pytest.raises(ae.SettingError, match=r"Quadratic; Quartic is not.*scope=Passes"):
        ae.AltEraser(scope="affected").forget(model, data, REQUESTS)
    with pytest.raises(ae.ModelFileError, match=r"A Quartic came.*`alteraser\.register`"):
        ae.Version.of(model, data)
