"""The results open with what was measured: change a figure in a file, and the page says another."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from alteraser.report import plots
from evidence.page import UNKNOWN
from studies.headline import agreement_plot, by_dataset, headline_table
from studies.methods import (
    AH_FORGETTING,
    DEFAULT,
    HEADLINE,
    OF_DEFAULT,
    RETRAIN,
    RETRAIN_INDEPENDENT,
    RETRAIN_STAR,
    RETRAININGS,
    SHARED_SEED,
    SHARED_WEIGHTS,
    WARM_START,
)
from studies.page import PAGES, write_page
from studies.shortfalls import shortfalls
from studies.tables import paper

RESULTS = Path(__file__).parents[2] / "docs" / "results"
DATASETS = ("amazon-14core", "kuairec-binary", "ml-1m")


def record(
    dataset: str,
    method: str,
    run: int,
    *,
    rbo: float = 0.8,
    speed_up: float = 50.0,
    seconds: float = 1.0,
    loss: float = 100.0,
) -> dict[str, Any]:
    case = {"dataset": dataset, "scenario": "noise", "regime": "paper", "run": run, "method": method}
    cost = {"speed_up": speed_up, "seconds": seconds, "loss": loss}
    return {**case, "rbo": {"10": rbo}, "ndcg": {"10": 0.3}, **cost}


def records(**changes: dict[str, float]) -> list[dict[str, Any]]:
    """Two runs of each data set, all methods alike but those that are changed, by their names."""
    return [
        record(dataset, method, run, **changes.get(method, {}))
        for dataset in DATASETS
        for run in (0, 1)
        for method in (RETRAIN, *HEADLINE)
    ]


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the results that were measured, to make pages from."""
    monkeypatch.setattr(plots, "_svg", lambda *_: "<svg/>")
    shutil.copytree(RESULTS, tmp_path / "results", ignore=shutil.ignore_patterns("*.svg"))
    return tmp_path


def make(pages: Path) -> str:
    write_page(pages / "results", pages / "results.md")
    return (pages / "results.md").read_text(encoding="utf-8")


def test_the_first_thing_on_the_page_is_the_table(pages: Path) -> None:
    title, blank, head, rule, *rows = make(pages).splitlines()
    assert (title, blank) == ("# Results", "")
    assert head.split(" | ")[2:] == [
        "RBO@10: paper",
        "ours",
        "NDCG@10: paper",
        "ours",
        "Speed-up: paper",
        "ours",
        "Speed-up over the fastest retraining |",
    ]
    assert set(rule) <= set("|- :")
    table = rows[: rows.index("")]
    assert [name for row in table for name in re.findall(r"\*\*([\w-]+)\*\*", row.split("|")[1])] == [
        *DATASETS
    ]
    for name in (RETRAIN_STAR, RETRAIN_INDEPENDENT, WARM_START, "**AltEraser**"):
        assert sum(f"| {name} |" in row for row in table) == len(DATASETS)


def test_a_figure_that_changes_in_its_file_changes_on_the_page(pages: Path) -> None:
    before = make(pages)
    file = pages / "results" / "headline" / "ml-1m-noise-paper.json"
    measured = json.loads(file.read_text())
    for run in measured["runs"]:
        (ours,) = (each for each in run["results"] if each["method"] == DEFAULT)
        ours["rbo"]["10"], ours["speed_up"] = 0.1234, 7654.3
        run["commit"] = "0123456789ab"
    file.write_text(json.dumps(measured))
    after = make(pages)
    changed = [row for row in after.splitlines() if row not in before.splitlines()]
    assert any(row.startswith("|  | **AltEraser** | 0.722 | 0.123 |") and "7654.3" in row for row in changed)
    assert "`0123456789ab`" in after
    assert "`0123456789ab`" not in before


def test_every_page_names_its_commit_and_links_lead_to_the_others(pages: Path) -> None:
    first = make(pages)
    for end in PAGES:
        assert f"(results-{end}.md)" in first
        assert "Measured at " in (pages / f"results-{end}.md").read_text().split("## ")[0]
    assert re.search(r"Measured at commit `[0-9a-f]{12}`\.", first)
    for page in pages.glob("*.md"):
        for target in re.findall(r"\]\((results[^)#:]*)\)", page.read_text()):
            assert (pages / target).exists(), f"{page.name}: {target}"


def test_results_without_the_headline_say_how_to_measure_it(pages: Path) -> None:
    shutil.rmtree(pages / "results" / "headline")
    assert "`python -m studies headline`" in make(pages).splitlines()[2]


def test_cells_are_means_over_the_runs_beside_what_the_paper_printed() -> None:
    of = [*records(), *(record("ml-1m", DEFAULT, run, rbo=0.5, speed_up=20.0) for run in (2, 3))]
    (row,) = (
        row
        for dataset, row in zip(
            (d for d in DATASETS for _ in range(7)), headline_table(by_dataset(of)).rows, strict=True
        )
        if dataset == "ml-1m" and row[1] == "**AltEraser**"
    )
    published = {
        part: paper()[part]["ml-1m"]["AltEraser [AH-Newton]"] for part in ("consistency", "accuracy")
    }
    assert row[2:4] == (f"{published['consistency']['rbo@10']:.3f}", "0.650")
    assert row[4:6] == (f"{published['accuracy']['ndcg@10']:.3f}", "0.300")
    assert row[6:8] == ("18.5", "35.0")


def test_what_falls_short_is_said_with_the_figures_that_tell_why() -> None:
    said = " ".join(
        shortfalls(
            by_dataset(
                records(
                    **{
                        RETRAIN_STAR: {"rbo": 0.83},
                        RETRAIN_INDEPENDENT: {"rbo": 0.81},
                        SHARED_WEIGHTS: {"rbo": 0.82},
                        SHARED_SEED: {"rbo": 0.84},
                        DEFAULT: {"speed_up": 4.0},
                        AH_FORGETTING: {"rbo": 0.79, "speed_up": 60.0},
                    }
                )
            )
        )
    )
    for dataset in DATASETS:
        assert f"{dataset} (0.800 against 0.830; medians 0.800 and 0.830)" in said
    assert "0.810, 0.810 and 0.810" in said
    assert "initial weights AltEraser reaches 0.820, 0.820 and 0.820" in said
    assert "seed 0.840, 0.840 and 0.840" in said
    # 4 is above what the paper has on amazon-14core
    assert "AltEraser's speed-up over Retrain is below the paper's on" in said
    assert "on kuairec-binary (4.0 against 7.1; median 4.0) and ml-1m (4.0 against 18.5; median 4.0)" in said
    assert "0.790 at 60.0 times and 0.790 at 60.0 times" in said


def row_of(of: list[dict[str, Any]], name: str, dataset: str = "ml-1m") -> tuple[str, ...]:
    """The row of a method in the table of one data set."""
    rows = headline_table(by_dataset(each for each in of if each["dataset"] == dataset)).rows
    return next(row for row in rows if row[1] == name)


def test_the_rival_is_the_fastest_retraining_that_reaches_the_loss() -> None:
    slow, quick, short = OF_DEFAULT
    changes = {
        **{name: {"seconds": 90.0} for name in RETRAININGS},
        DEFAULT: {"seconds": 2.0},
        slow: {"seconds": 30.0},
        quick: {"seconds": 10.0},
        short: {"seconds": 1.0, "loss": 100.1},
    }
    assert row_of(records(**changes), "**AltEraser**")[-1] == "5.0 (median 5.0)"
    assert row_of(records(**changes), WARM_START)[-1] == ""
    everywhere = {name: {"loss": 100.1} for name in RETRAININGS}
    assert row_of(records(**everywhere), "**AltEraser**")[-1] == "no retraining got there"
    without = [each for each in records(**changes) if each["method"] != slow]
    assert row_of(without, "**AltEraser**")[-1] == UNKNOWN


def test_warm_start_that_agrees_better_is_named_with_its_runs() -> None:
    said = " ".join(shortfalls(by_dataset(records(**{WARM_START: {"rbo": 0.81}}))))
    told = "ml-1m (0.800 against 0.810; medians 0.800 and 0.810; higher in 0 of 2 runs, Warm-Start's in 2)"
    assert "less with Retrain than Warm-Start does on" in said
    assert told in said


SLOW_RETRAININGS = {name: {"seconds": 90.0} for name in RETRAININGS}


def test_what_does_not_fall_short_is_not_said_to() -> None:
    (said,) = shortfalls(by_dataset(records(**SLOW_RETRAININGS)))
    assert said.startswith("Nowhere ")


def test_figures_are_compared_as_numbers_and_shown_so_that_they_differ() -> None:
    (said,) = shortfalls(by_dataset(records(**SLOW_RETRAININGS, **{WARM_START: {"rbo": 0.80004}})))
    assert "ml-1m (0.80000 against 0.80004; medians 0.800 and 0.800;" in said
    (said,) = shortfalls(by_dataset(records(**{**SLOW_RETRAININGS, DEFAULT: {"speed_up": 9.9}})))
    assert "on ml-1m (9.9 against 18.5; median 9.9), because" in said


def test_a_speed_over_the_fastest_retraining_below_the_papers_is_said() -> None:
    (said,) = shortfalls(by_dataset(records(**SLOW_RETRAININGS, **{DEFAULT: {"seconds": 10.0}})))
    assert said.startswith("AltEraser's speed-up over the fastest retraining to its loss is below ")
    assert "on ml-1m (9.0 against 18.5; median 9.0)." in said
    assert "kuairec-binary" not in said
    short = {name: {"loss": 100.1} for name in RETRAININGS}
    (said,) = shortfalls(by_dataset(records(**short)))
    assert said.endswith("no retraining got there on amazon-14core, kuairec-binary and ml-1m.")


def test_medians_that_say_otherwise_are_named() -> None:
    of = [*records(**SLOW_RETRAININGS), record("ml-1m", DEFAULT, 2, rbo=0.5), record("ml-1m", WARM_START, 2)]
    of += [record("ml-1m", name, 2, seconds=90.0) for name in RETRAININGS]
    said = " ".join(shortfalls(by_dataset(of)))
    assert (
        "ml-1m (0.700 against 0.800; medians 0.800 and 0.800, by medians the other way; higher in 0 of 3"
        in said
    )


def test_the_tolerance_that_is_told_is_that_of_the_runs() -> None:
    of = records(**SLOW_RETRAININGS, **{DEFAULT: {"speed_up": 1.0}})
    assert "goes on until an estimated 6 % is left" in " ".join(shortfalls(by_dataset(of)))
    for each in of:
        each["tolerance"] = 0.012 if each["method"] == DEFAULT else 0.5
    assert "goes on until an estimated 1.2 % is left" in " ".join(shortfalls(by_dataset(of)))


def test_the_plot_has_a_point_for_each_run() -> None:
    drawn = agreement_plot(by_dataset(records()))
    assert all(dataset in drawn for dataset in DATASETS)
    one_more = [*records(), *(record(dataset, DEFAULT, 2) for dataset in DATASETS)]
    assert agreement_plot(by_dataset(one_more)).count("<use ") == drawn.count("<use ") + len(DATASETS)
