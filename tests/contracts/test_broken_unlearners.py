"""Unlearners that break a promise each, and are found out by their suite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import alteraser as ae
from alteraser.data.interactions import Side
from alteraser.testing import (
    UnlearnerContract,
)
from alteraser.unlearn.base import Unlearner


@dataclass(frozen=True)
class Changed:
    """An unlearner whose erasure is changed afterwards."""

    def forget(self, original: Any, full: Any, requested: Any, **options: Any) -> Any:
        erasure = ae.AltEraser().forget(original, full, requested, **options)
        return self.change(original, full, erasure)

    def change(self, original: Any, full: Any, erasure: Any) -> Any:
        raise NotImplementedError


class ReturnsTheOriginal(Changed):
    def change(self, original: Any, full: Any, erasure: Any) -> Any:
        del full
        return replace(erasure, model=original)


class KeepsTheData(Changed):
    def change(self, original: Any, full: Any, erasure: Any) -> Any:
        del original
        return replace(erasure, remaining=lambda: full)


class LeavesATrace(Changed):
    def change(self, original: Any, full: Any, erasure: Any) -> Any:
        del full
        trace = 1e-6 * original.table(Side.USERS)[2:3]
        return replace(erasure, model=erasure.model.with_rows(Side.USERS, np.array([2]), trace))


class Destroys(Changed):
    def change(self, original: Any, full: Any, erasure: Any) -> Any:
        del full
        original.table(Side.ITEMS)[0] += 0.01
        return erasure


class Raises(Changed):
    def change(self, original: Any, full: Any, erasure: Any) -> Any:
        del full, original
        return replace(erasure, losses=(*erasure.losses, erasure.losses[0] * 1.1))


class Draws(Changed):
    def change(self, original: Any, full: Any, erasure: Any) -> Any:
        del full, original
        return replace(erasure, model=erasure.model.fresh(np.random.default_rng()))


class TakesWhateverIsAsked(Changed):
    def forget(self, original: Any, full: Any, requested: Any, **options: Any) -> Any:
        return ae.AltEraser().forget(original, full, requested, **{**options, "missing": "ignore"})


UNLEARNERS: Mapping[Any, str] = {
    ReturnsTheOriginal: "test_a_wholly_forgotten_id_has_an_empty_row_and_is_a_tombstone",
    KeepsTheData: "test_the_remaining_data_is_what_was_not_asked_for",
    LeavesATrace: "test_a_wholly_forgotten_id_has_an_empty_row_and_is_a_tombstone",
    Destroys: "test_the_original_and_the_full_data_are_as_they_were",
    Raises: "test_the_loss_on_what_remains_does_not_rise",
    Draws: "test_the_same_call_gives_the_same_model",
    TakesWhateverIsAsked: "test_a_request_that_matches_nothing_is_an_error_unless_ignored",
}


@pytest.mark.parametrize("kind", UNLEARNERS, ids=lambda kind: kind.__name__)
def test_an_unlearner_that_breaks_its_promise_is_found_out(kind: Any) -> None:
    class Checked(UnlearnerContract):
        def make(self) -> Unlearner:
            unlearner: Unlearner = kind()
            return unlearner

        def originals(self) -> Mapping[str, Any]:
            model = super().originals()["mf"]
            return {"mf": model.with_parameters({k: v.clone() for k, v in model.parameters().items()})}

    assert UNLEARNERS[kind] in Checked().broken()
