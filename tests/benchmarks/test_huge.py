"""What is measured of hundreds of millions is measured once, and the same of every size."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alteraser.data.interactions import Side
from benchmarks import huge
from benchmarks.generated import generated
from benchmarks.scaling import HISTORY, users_alike
from evidence.store import Store


def test_accounts_are_of_the_same_kind_at_every_size() -> None:
    audiences, histories = [], []
    for millions in (1, 3):
        data = generated(int(millions * 10**6), np.random.default_rng(0))
        users, audience = users_alike(data, 50)
        counts = data.by(Side.USERS).counts[users]
        assert HISTORY[0] <= counts.min() <= counts.max() <= HISTORY[1]
        audiences.append(audience)
        histories.append(np.mean(counts))
    assert audiences[0] == pytest.approx(audiences[1], rel=0.05)
    assert 2 / 3 < histories[0] / histories[1] < 3 / 2


def test_a_record_tells_all_that_happens_to_a_size() -> None:
    found = huge.record(0.25, n_accounts=4, dim=8)
    assert found["interactions"] > 100_000
    assert 0 < found["p50_ms"] <= found["p99_ms"]
    assert 0 < found["base_gb"] <= found["peak_gb"]
    assert list(found["seconds"]) == ["generating", "indexing", "training and opening"]


def test_a_size_that_was_measured_at_this_commit_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def measured(size: str) -> dict[str, Any]:
        asked.append(size)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return {"p50_ms": float(size)}

    monkeypatch.setattr(huge, "_in_own_process", measured)
    monkeypatch.setattr(huge, "Store", partial(Store, commit="abc"))
    with pytest.raises(KeyboardInterrupt):
        huge.measure(None, millions=(1, 3), folder=tmp_path)
    found = huge.measure(None, millions=(1, 3), folder=tmp_path)
    assert asked == ["1", "3", "3"]
    assert found["p50_growth"] == 3.0


@pytest.mark.parametrize("commit", [None, "abc-dirty"])
def test_a_size_is_measured_again_where_the_code_that_measured_it_is_not_known(
    commit: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def measured(size: str) -> dict[str, Any]:
        asked.append(size)
        return {"p50_ms": float(size)}

    monkeypatch.setattr(huge, "_in_own_process", measured)
    monkeypatch.setattr(huge, "Store", partial(Store, commit=commit))
    for _ in range(2):
        assert huge.measure(None, millions=(1, 3), folder=tmp_path)["p50_growth"] == 3.0
    assert asked == ["1", "3", "1", "3"]


def test_a_size_whose_result_is_broken_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huge, "_in_own_process", lambda size: {"p50_ms": float(size)})
    monkeypatch.setattr(huge, "Store", partial(Store, commit="abc"))
    (tmp_path / "1.json").write_text("{")
    assert huge.measure(None, millions=(1, 3), folder=tmp_path)["p50_growth"] == 3.0
