"""The slice held out to judge settings by."""

from __future__ import annotations

import numpy as np
import pytest

from alteraser.data.datasets import load_dataset
from alteraser.data.interactions import Interactions, Side
from alteraser.measure.compare import EVERYONE, compare
from alteraser.models.mf import MF
from alteraser.tuning.validation import ValidationSlice


@pytest.fixture(scope="module")
def data() -> Interactions:
    return load_dataset("synthetic")


def test_what_is_held_out_is_a_fifth_of_the_chosen_users_items_and_nothing_of_the_others(
    data: Interactions,
) -> None:
    part = ValidationSlice.of(data, max_users=50, rng=np.random.default_rng(0))
    before, learn, held = (each.by(Side.USERS).counts for each in (data, part.learn, part.held_out))
    assert len(part.users) == 50
    np.testing.assert_array_equal(learn + held, before)
    np.testing.assert_array_equal(held[part.users], np.floor(before[part.users] * 0.2 + 0.5))
    assert held.sum() == held[part.users].sum()


def test_with_few_users_all_of_them_are_judged_and_the_ndcg_is_that_of_compare(data: Interactions) -> None:
    part = ValidationSlice.of(data, rng=np.random.default_rng(0))
    model = MF.sized_for(part.learn, dim=4, rng=np.random.default_rng(1))
    report = compare({"model": model}, remain=part.learn, test=part.held_out, ks=(10,))
    assert part.ndcg(model) == pytest.approx(report.values["model"][EVERYONE]["ndcg"][10], abs=1e-12)
