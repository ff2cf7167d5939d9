"""What is measured of hundreds of millions is measured once, and the same of every size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import huge


def test_accounts_are_of_the_same_kind_at_every_size() -> None:
    found = huge.record(0.25, n_accounts=4, dim=8)
    assert found["interactions"] > 100_000
    assert found["p50_ms"] <= found["p99_ms"]
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
    with pytest.raises(KeyboardInterrupt):
        huge.measure(None, millions=(1, 3), folder=tmp_path)
    found = huge.measure(None, millions=(1, 3), folder=tmp_path)
    assert asked == ["1", "3", "3"]
    assert found["p50_growth"] == 3.0
