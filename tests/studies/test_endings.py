"""The study of where training ends: what it measures, keeps and says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from alteraser.data.interactions import Interactions, Side
from alteraser.data.synthetic import synthetic
from evidence.store import Store
from studies import endings
from studies.defaults_data import DataCase
from studies.defaults_split import Split


@pytest.fixture(scope="module")
def data() -> Interactions:
    return synthetic(np.random.default_rng(2), n_users=300, n_items=80, mean_interactions=14).data


def test_the_optimum_is_lower_and_lists_agree_after_forgetting(data: Interactions) -> None:
    found = endings.of_split(Split.of(data, 0, dim=8))["ends"]
    default, optimum = found[endings.DEFAULT], found[endings.OPTIMUM]
    assert optimum["loss"] <= default["loss"]
    for end in (default, optimum):
        assert 1 >= end["agreement"] > end["agreement_original"] > 0
        assert 0 < end["agreement_others"] <= 1


def test_half_of_the_history_of_each_user_is_asked_for(data: Interactions) -> None:
    requests, users, others = endings._draw(data, np.random.default_rng(0))
    gone = requests.match(data).mask
    counts = data.by(Side.USERS).counts
    lost = np.bincount(data.users[gone], minlength=data.n_users)
    assert np.array_equal(lost[users], counts[users] // 2)
    assert lost.sum() == lost[users].sum()
    assert len(np.intersect1d(users, others)) == 0


def test_what_is_there_is_not_measured_again_and_the_page_tells_the_ratios(
    data: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = DataCase("ml-100k", "ml-100k", lambda _: data)
    monkeypatch.setattr(endings, "named_case", lambda _: case)
    store = Store(tmp_path / "endings")
    first = endings.measure(["ml-100k"], store, folder=tmp_path, dim=8)
    assert endings.measure(["ml-100k"], store, folder=tmp_path, dim=8) == first
    assert endings.add_page(tmp_path / "endings.md", tmp_path / "endings") == 1
    text = (tmp_path / "endings.md").read_text()
    assert f"{endings.ratio(first[0], 'seconds'):.1f} times as long at the median" in text
    assert "| ml-100k |" in text
