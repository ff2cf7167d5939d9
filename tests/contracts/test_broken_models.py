"""A suite that cannot fail proves nothing: models that break a promise each, and are found out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from alteraser.data.interactions import Interactions, Side
from alteraser.models.bilinear import Bilinear
from alteraser.models.mf import MF
from alteraser.models.objective import Objective
from alteraser.models.ridge import ALL_ROWS, RidgeFactors, RidgeRows, RidgeSide
from alteraser.testing import (
    BatchTrainableContract,
    Contract,
    FactoredContract,
    QuadraticContract,
    RecommenderContract,
    StorableContract,
)


@dataclass(frozen=True, eq=False, repr=False)
class Honest(Bilinear):
    """What MF is, and can be subclassed."""

    kind: ClassVar[str] = "honest"

    @property
    def h(self) -> Tensor:
        return torch.ones(self.dim, dtype=self.dtype)

    def _weighed(self, table: Tensor) -> Tensor:
        return table

    def parameters(self) -> dict[str, Tensor]:
        return {"users": self.users, "items": self.items}


def made(kind: Any, data: Interactions) -> Any:
    rng = np.random.default_rng(1)
    tables = [torch.from_numpy(rng.normal(0, 0.5, (n, 3))) for n in (data.n_users, data.n_items)]
    return kind(*tables, Objective(w0=0.3, l2=0.05))


def broken(suite: Any, kind: Any) -> dict[str, str]:
    """The promises that models of a class break."""
    checked = type("Checked", (suite,), {"make": lambda _, data: made(kind, data)})()
    assert isinstance(checked, Contract)
    return checked.broken()


class LeakyRows(RidgeRows):
    def value(self, x: Tensor) -> Tensor:
        return super().value(x) + 0.01 * x.square().sum()


class LeakySide(RidgeSide):
    def block(self, rows: Any) -> RidgeRows:
        return LeakyRows(self, rows)


def side_of(model: Bilinear, kind: Any, side: Side, data: Interactions) -> Any:
    honest = Bilinear.row_problems(model, side, data)
    return kind(honest.data, honest.terms)


class LeaksBetweenRows(Honest):
    """The problem of a row grows with the others of its block."""

    def row_problems(self, side: Side, data: Interactions, **options: Any) -> RidgeSide:
        del options
        made: RidgeSide = side_of(self, LeakySide, side, data)
        return made


class RemembersItsOwnSide(Honest):
    """The problems of a side depend on where that side stands."""

    def row_problems(self, side: Side, data: Interactions, **options: Any) -> RidgeSide:
        honest = super().row_problems(side, data, **options)
        grown = honest.l2 * (1 + self.table(side).square().mean())
        return replace(honest.terms, l2=grown).on(honest.data)


class ForgetsTheConfidences(Honest):
    """Its loss is that of other weights than its row problems."""

    def loss(self, data: Interactions, **options: Any) -> float:
        return super().loss(replace(data, events=data.events.drop("weight")), **options)


class MovesOtherRows(Honest):
    def with_rows(self, side: Side, rows: Any, vectors: Tensor) -> Any:
        moved = super().with_rows(side, rows, vectors)
        return moved.with_parameters({**moved.parameters(), side.value: moved.table(side) * 1.001})


class WorksInPlace(Honest):
    def with_rows(self, side: Side, rows: Any, vectors: Tensor) -> Any:
        self.table(side)[torch.from_numpy(rows)] = vectors
        return self


class EmptyRowOfOnes(Honest):
    def empty_row(self, side: Side) -> Tensor:
        return torch.ones_like(super().empty_row(side))


class Stale(Honest):
    """Fresh in name only."""

    def fresh(self, rng: Any) -> Any:
        del rng
        return self


class DrawsItsLoss(Honest):
    def loss(self, data: Interactions, **options: Any) -> float:
        return super().loss(data, **options) * (1 + 1e-6 * np.random.default_rng().random())


class TakesAnyData(Honest):
    def check_belongs(self, data: Interactions) -> None:
        del data


class Hoarder(Honest):
    """Keeps the data it has seen in a cache."""

    def loss(self, data: Interactions, **options: Any) -> float:
        vars(self)["_cache"] = {"rows": [data.users[data.users == user] for user in range(data.n_users)]}
        return super().loss(data, **options)


class ClosesOverItsData(Honest):
    def loss(self, data: Interactions, **options: Any) -> float:
        pairs = np.stack([data.users, data.items], axis=1)
        vars(self)["again"] = lambda: pairs
        return super().loss(data, **options)


class SecondThoughts(Honest):
    """Pairs score otherwise than lists."""

    def pair_scores(self, users: Any, items: Any) -> Tensor:
        return super().pair_scores(users, items) + 0.1


FACTORED: Mapping[Any, str] = {
    LeaksBetweenRows: "test_rows_of_a_side_do_not_know_of_each_other",
    RemembersItsOwnSide: "test_rows_of_a_side_do_not_know_of_each_other",
    ForgetsTheConfidences: "test_row_problems_have_the_gradient_of_the_loss",
    MovesOtherRows: "test_with_rows_changes_these_rows_and_nothing_else",
    WorksInPlace: "test_with_rows_changes_these_rows_and_nothing_else",
    EmptyRowOfOnes: "test_an_empty_row_is_at_the_minimum_of_its_problem",
    Stale: "test_a_fresh_model_is_that_of_its_generator",
    DrawsItsLoss: "test_the_loss_is_the_same_whenever_and_in_whatever_order",
    Hoarder: "test_holds_no_interactions",
    ClosesOverItsData: "test_holds_no_interactions",
}


@pytest.mark.parametrize("suite", [FactoredContract, QuadraticContract, BatchTrainableContract])
def test_an_honest_model_breaks_nothing(suite: Any) -> None:
    assert broken(suite, Honest) == {}


@pytest.mark.parametrize("kind", FACTORED, ids=lambda kind: kind.__name__)
def test_a_factored_model_that_breaks_its_promise_is_found_out(kind: Any) -> None:
    assert FACTORED[kind] in broken(FactoredContract, kind)


@pytest.mark.parametrize(
    ("kind", "test"),
    [
        (SecondThoughts, "test_pair_scores_are_those_of_scores"),
        (TakesAnyData, "test_data_of_another_size_is_refused"),
    ],
)
def test_a_recommender_that_breaks_its_promise_is_found_out(kind: Any, test: str) -> None:
    assert list(broken(RecommenderContract, kind)) == [test]


class WrongCross(RidgeSide):
    def cross(self, own: Tensor, change: Tensor) -> Tensor:
        return 2 * super().cross(own, change)


class WrongResidual(RidgeSide):
    def residual(self, own: Tensor, rows: slice = ALL_ROWS) -> Tensor:
        return -super().residual(own, rows)


class WrongFactors(RidgeSide):
    def factorised(self, space: Any = None) -> RidgeFactors | None:
        return replace(self.terms, l2=self.l2 * 1.01).on(self.data).factorised(space)


@pytest.mark.parametrize(
    ("side_kind", "test"),
    [
        (WrongCross, "test_cross_is_half_the_gradients_change_as_the_other_side_moves"),
        (WrongResidual, "test_residuals_are_half_of_minus_the_gradient"),
        (WrongFactors, "test_factors_solve_as_dense_matrices_do"),
    ],
)
def test_a_quadratic_model_that_breaks_its_promise_is_found_out(side_kind: Any, test: str) -> None:
    class Wrong(Honest):
        def row_problems(self, side: Side, data: Interactions, **options: Any) -> RidgeSide:
            del options
            made: RidgeSide = side_of(self, side_kind, side, data)
            return made

    assert test in broken(QuadraticContract, Wrong)


def test_weights_of_rows_that_are_not_those_of_the_loss_are_found_out() -> None:
    class Light(Honest):
        def row_weights(self, side: Side, counts: Any) -> Any:
            missing, l2 = super().row_weights(side, counts)
            return missing, 0.9 * l2

    assert list(broken(QuadraticContract, Light)) == ["test_the_loss_is_that_of_h_and_the_weights_of_rows"]


def test_batches_that_count_a_penalty_twice_are_found_out() -> None:
    class Twice(Honest):
        def batch_gradients(self, users: Any, data: Interactions, weights: Any) -> Any:
            loss, gradients = super().batch_gradients(users, data, weights)
            return loss, {**gradients, "items": gradients["items"] + 0.01 * self.items}

    found = broken(BatchTrainableContract, Twice)
    assert set(found) == {
        "test_batches_sum_to_the_whole",
        "test_the_gradient_of_all_users_is_that_of_the_loss",
    }


def test_a_model_that_is_not_registered_or_reads_itself_wrongly_is_found_out() -> None:
    class Lossy(Honest):
        def tensors(self) -> dict[str, Tensor]:
            return {name: value.half().double() for name, value in super().tensors().items()}

    found = broken(StorableContract, Honest)
    assert "'honest'" in found["test_what_is_written_makes_the_same_model"]
    assert set(found) == {"test_what_is_written_makes_the_same_model"}
    assert "test_what_is_written_makes_the_same_model" in broken(StorableContract, Lossy)


def test_check_names_every_promise_that_is_broken() -> None:
    class Checked(RecommenderContract):
        def make(self, data: Interactions) -> MF:
            model: MF = made(SecondThoughts, data)
            return model

    with pytest.raises(AssertionError, match=r"test_pair_scores_are_those_of_scores: .* off by"):
        Checked().check()


def test_a_suite_that_is_not_told_what_to_check_says_so() -> None:
    class Untold(FactoredContract):
        pass

    with pytest.raises(TypeError, match="make"):
        Untold()  # type: ignore[abstract]


def test_the_suites_need_no_pytest() -> None:
    code = "import sys, alteraser as ae; ae.testing.FactoredContract; print('pytest' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
