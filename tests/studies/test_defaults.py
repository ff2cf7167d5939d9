"""The study of default settings: its rule, its records, its page."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from alteraser.data.interactions import Side
from alteraser.data.synthetic import synthetic
from alteraser.errors import SettingError
from alteraser.models.objective import RULE, Rule
from evidence.store import Result, Store
from studies import defaults
from studies.defaults import GRID_L2, GRID_W0, measure, named_measurements, rule_without
from studies.defaults_data import ORIGINALS, DataCase, data_cases, named_case
from studies.defaults_page import CaseScores, add_page
from studies.defaults_split import Split

MEASURED = Path(__file__).parents[2] / "docs" / "results" / "defaults"


def test_the_rule_that_is_shipped_is_what_the_measured_grids_give() -> None:
    assert rule_without("", Store(MEASURED)) == RULE


def grid(peak: tuple[float, float], *, density: float, seed: int = 0) -> Result:
    """A result whose NDCG has one peak, at a multiple of √density and a share of an edge that is 0.1 everywhere."""
    records = [
        {
            "what": "grid",
            "seed": seed,
            "w0": w0,
            "l2": l2,
            "validation": (
                value := float(
                    np.exp(-(np.log(w0 / density**0.5 / peak[0]) ** 2) - np.log(l2 / 0.1 / peak[1]) ** 2)
                )
            ),
            "test": value,
        }
        for w0, l2 in product(GRID_W0, GRID_L2)
    ]
    data = {"users": 10, "items": 10, "density": density, "noise_edge": dict.fromkeys(map(str, GRID_W0), 0.1)}
    return {"case": "", "origin": "", "data": data, "records": records}


def test_a_rule_is_calibrated_on_the_other_originals_alone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for name in ("ml-100k", "tafeng"):
        store.write(name, grid((1.0, 0.3), density=0.01))
    store.write("ml-1m", grid((0.5, 0.15), density=0.01))
    store.write("amazon-sports", grid((2.0, 0.5), density=0.01) | {"records": []})  # not whole: passed over
    assert rule_without("ml-1m", store) == Rule(w0_factor=1.0, tightness=0.3)
    alone = Store(tmp_path / "alone")
    alone.create()
    alone.write("ml-1m", grid((0.5, 0.15), density=0.01))
    assert rule_without("ml-100k", alone).w0_factor == 0.5
    assert rule_without("ml-1m", alone) == RULE


def test_records_are_kept_and_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defaults, "GRID_W0", (0.1,))
    monkeypatch.setattr(defaults, "GRID_L2", (0.01, 0.03))
    data = synthetic(np.random.default_rng(0), n_users=200, n_items=100, mean_interactions=12).data
    case = DataCase("small", "small", lambda _: data)
    said: list[str] = []
    store, what = Store(tmp_path), ("grid", "default", "rule", "popular", "implicit")
    records = measure(case, store, seeds=[0], what=what, folder=tmp_path, dim=4, announce=said.append)
    assert [each["what"] for each in records] == ["grid", "grid", "default", "rule", "popular", "implicit"]
    assert all(0 < each["validation"] < 1 and 0 < each["test"] < 1 for each in records)
    assert len(said) == 6
    assert measure(case, store, seeds=[0], what=what, folder=tmp_path, dim=4, announce=said.append) == records
    assert len(said) == 6
    json.loads((tmp_path / "small.json").read_text())


def test_curves_of_training_are_of_the_best_settings_of_both_grids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(defaults, "GRID_W0", (0.1, 3.0))
    monkeypatch.setattr(defaults, "GRID_L2", (0.02,))
    monkeypatch.setattr(defaults, "GRID_ALPHA", (1.0, 10.0))
    monkeypatch.setattr(defaults, "GRID_REGULARIZATION", (0.1,))
    data = synthetic(np.random.default_rng(0), n_users=200, n_items=100, mean_interactions=12).data
    case, store = DataCase("small", "small", lambda _: data), Store(tmp_path)
    with pytest.raises(SettingError, match="best of grid, which is not whole"):
        measure(case, store, seeds=[0], what=["curve"], folder=tmp_path, dim=4)
    records = measure(case, store, seeds=[0], what=["grid", "implicit-grid", "curve"], folder=tmp_path, dim=4)
    curve = records[-1]
    for name, grid_name in (("ours", "grid"), ("implicit", "implicit-grid")):
        points = [each for each in records if each["what"] == grid_name]
        best = max(points, key=lambda each: each["validation"])
        passes = [point["passes"] for point in curve[name]]
        assert passes[:3] == [1, 2, 4]
        assert passes == sorted(passes)
        if name == "ours":
            assert curve[name][-1]["test"] == best["test"]
        assert all(point["seconds"] > 0 for point in curve[name])
    assert curve["seconds_choosing"] > 0
    assert curve["seconds_training"] > 0


def test_the_parts_hold_every_pair_once() -> None:
    data = synthetic(np.random.default_rng(0), n_users=200, n_items=100, mean_interactions=12).data
    split = Split.of(data, seed=1)
    counts = [each.by(Side.USERS).counts for each in (split.train, split.validation, split.test)]
    np.testing.assert_array_equal(sum(counts), data.by(Side.USERS).counts)
    assert abs(int(counts[1].sum()) - int(counts[2].sum())) < 0.3 * counts[1].sum()


def test_the_page_tells_the_share_of_the_best_on_validation(tmp_path: Path) -> None:
    result = grid((1.0, 0.3), density=0.01) | {"case": "ml-100k", "origin": "ml-100k"}
    best = max(result["records"], key=lambda each: each["validation"])
    best["test"] = (
        0.5  # what is best on the validation part counts, whatever the others have in the test part
    )
    result["records"] += [
        {"what": "default", "seed": 0, "validation": 0.1, "test": 0.48},
        {"what": "implicit", "seed": 0, "validation": 0.1, "test": 0.4},
        {"what": "default", "seed": 1, "validation": 0.1, "test": 0.01},  # its grid is not there
    ]
    scores = CaseScores.of(result)
    assert scores is not None
    assert list(scores.by_split) == [0]
    assert scores.ratio("default") == pytest.approx(0.96)
    store = Store(tmp_path / "results")
    store.create()
    store.write("ml-100k", result)
    assert add_page(tmp_path / "defaults.md", tmp_path / "results") == 1
    text = (tmp_path / "defaults.md").read_text()
    assert "| 0.5000 | 0.4800 | 0.960 | yes |" in text
    assert "worst 1.200" in text  # over implicit


def test_the_cases_are_the_originals_their_parts_and_generated_ones() -> None:
    names = [case.name for case in data_cases()]
    assert names[: len(ORIGINALS)] == list(ORIGINALS)
    assert len(names) == len(set(names)) == 4 * len(ORIGINALS) + 3
    with pytest.raises(SettingError, match="There is no case 'nothing'"):
        named_case("nothing")
    with pytest.raises(SettingError, match="'magic' cannot be measured"):
        named_measurements("grid,magic")
