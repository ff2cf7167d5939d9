"""`python -m benchmarks` measures what it is asked to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as command
from benchmarks import page
from evidence.revision import revision


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what was measured; results and pages go nowhere near those of the repository."""
    names: list[str] = []

    def measure(name: str) -> Any:
        def by(data_dir: str | None) -> dict[str, Any]:
            names.append(name)
            return {"data_dir": data_dir}

        return by

    monkeypatch.setattr(command, "BENCHMARKS", {name: measure(name) for name in command.BENCHMARKS})
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    monkeypatch.setattr(page, "write", lambda _: names.append("page"))
    return names


def test_without_a_name_all_are_measured_and_the_page_is_written(measured: list[str]) -> None:
    command.main([])
    assert measured == [*(name for name in command.BENCHMARKS if name not in command.LONG), "page"]


def test_only_what_is_named_is_measured(measured: list[str], tmp_path: Path) -> None:
    command.main(["footprint", "passes", "--data-dir", "elsewhere"])
    assert measured == ["passes", "footprint", "page"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["footprint.json", "passes.json"]
    result = json.loads((tmp_path / "passes.json").read_text())
    assert result == {"data_dir": "elsewhere", "commit": revision()}


def test_what_an_earlier_protocol_gave_outlives_a_new_measurement(
    measured: list[str], tmp_path: Path
) -> None:
    before = {"commit": "abc", "how": "by hand", "figures": []}
    (tmp_path / "passes.json").write_text(json.dumps({"before": before, "figures": [1]}))
    command.main(["passes"])
    result = json.loads((tmp_path / "passes.json").read_text())
    assert result == {"before": before, "data_dir": None, "commit": revision()}
    assert measured == ["passes", "page"]


def test_the_page_alone_measures_nothing(measured: list[str]) -> None:
    command.main(["page"])
    assert measured == ["page"]


def test_a_name_that_is_not_known_stops_before_anything_is_measured(
    measured: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command.main(["passes", "speed"])
    assert measured == []
    assert "there is no speed" in capsys.readouterr().err
