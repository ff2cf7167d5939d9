"""The evaluation: the same for the same seed, resumable, and its figures what they say they are."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from alteraser.data.datasets import load_dataset
from alteraser.data.interactions import Interactions
from alteraser.data.requests import Requests
from alteraser.errors import DataError, OutputExists, SettingError
from evidence.page import NO, SAYS_NOTHING, UNKNOWN, YES
from evidence.store import Store
from studies import evaluation as module
from studies import run as run_module
from studies.commands import main
from studies.evaluation import Evaluation, add_run, evaluate, find_run, sizes
from studies.goals import goals_table
from studies.methods import (
    AH_NEWTON,
    HF_NEWTON,
    METHODS,
    ORIGINAL,
    RETRAIN,
    RETRAIN_STAR,
    SAME_LOSS,
    SAME_LOSS_CG,
    WARM_START,
)
from studies.page import write_page
from studies.run import Case, run_case, timed
from studies.settings import Settings, chosen_settings, paper_datasets
from studies.tables import NONE_THERE, OverFastest, paper, tables
from studies.tune import tune

SMALL = Settings(dim=4, batch_users=64, l2=0.05)
FEW = (ORIGINAL, RETRAIN, RETRAIN_STAR, HF_NEWTON, AH_NEWTON, *SAME_LOSS)
needs_data = pytest.mark.skipif(
    "ALTERASER_DATA" not in os.environ, reason="ALTERASER_DATA names no data folder"
)


@pytest.fixture(scope="module")
def records(data: Interactions) -> list[dict[str, Any]]:
    return [
        record
        for run in (0, 1)
        for regime in ("paper", "converged")
        for record in run_case(Case("ml-1m", "noise", regime, run), data, SMALL, methods=FEW)
    ]


def without_clock(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if not key.startswith(("seconds", "speed_up"))}


def test_a_case_alone_determines_its_figures(data: Interactions, records: list[dict[str, Any]]) -> None:
    """Again, and with fewer methods: what one draws must not depend on which others run."""
    again = run_case(Case("ml-1m", "noise", "paper", 1), data, SMALL, methods=(AH_NEWTON,))
    before = [r for r in records if r["regime"] == "paper" and r["run"] == 1]
    for record in again:
        same = next(each for each in before if each["method"] == record["method"])
        assert without_clock(record) == without_clock(same)


def test_agreement_is_with_retrain_and_speed_is_against_it(records: list[dict[str, Any]]) -> None:
    for record in records:
        if record["method"] == RETRAIN:
            assert record["rbo"] == {"10": 1.0, "20": 1.0, "50": 1.0}
            assert record["speed_up"] == 1.0
        elif record["method"] == ORIGINAL:
            assert record["speed_up"] is None
        else:
            retrain = next(
                r
                for r in records
                if r["method"] == RETRAIN and (r["run"], r["regime"]) == (record["run"], record["regime"])
            )
            assert record["speed_up"] == pytest.approx(retrain["seconds"] / record["seconds"])


@pytest.mark.parametrize(
    ("clock", "wanted"), [([0.3, 0.1, 0.5, 0.2, 0.4], 0.3), ([1.9, 2.5, 2.4, 2.2, 2.3], 2.3), ([2.1], 2.1)]
)
def test_what_is_short_is_timed_several_times_and_the_median_counts(
    clock: list[float], wanted: float, data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "REPEATS", 5)
    outcomes = [Mock(cost=Mock(seconds=seconds)) for seconds in clock]
    build = Mock(return_value=Mock(forget=Mock(side_effect=outcomes)))
    assert timed(build, None, data, Requests.of([])) == (outcomes[0], wanted)
    assert build.call_count == len(clock)


def test_retraining_to_the_same_loss_ends_there(records: list[dict[str, Any]]) -> None:
    for run in (0, 1):
        of = {r["method"]: r for r in records if r["regime"] == "converged" and r["run"] == run}
        ours = of[AH_NEWTON]
        for rival, ratio in SAME_LOSS.items():
            *before, last = of[rival]["losses"]
            assert last <= ours["losses"][-1] < min(before)
            assert ours[ratio] == pytest.approx(of[rival]["seconds"] / ours["seconds"])
            assert ratio not in of[HF_NEWTON]  # which ended at another loss


def test_retrain_star_shares_the_initial_weights_in_the_papers_regime_alone(data: Interactions) -> None:
    def rng(purpose: str) -> np.random.Generator:
        return Case("ml-1m", "noise", "paper", 0).rng(purpose)

    first, star = (METHODS[name].build(SMALL, "paper", rng, {}) for name in (RETRAIN, RETRAIN_STAR))
    assert first.rng.random(5).tolist() == star.rng.random(5).tolist()  # type: ignore[attr-defined]
    assert star.order is not None  # type: ignore[attr-defined]
    converged = METHODS[RETRAIN_STAR].build(SMALL, "converged", rng, {})
    assert converged.rng.random(5).tolist() != rng("retrain").random(5).tolist()  # type: ignore[attr-defined]
    del data


def test_an_interrupted_evaluation_goes_on_where_it_stopped(
    tmp_path: Path, data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []

    def counted(case: Case, *arguments: Any, **options: Any) -> list[dict[str, Any]]:
        if len(ran) == 2:
            raise KeyboardInterrupt
        ran.append(case.run)
        return run_case(case, *arguments, **options)

    monkeypatch.setattr(module, "load_dataset", lambda *_, **__: data)
    monkeypatch.setattr(module, "chosen_settings", lambda *_: SMALL)
    monkeypatch.setattr(module, "run_case", counted)
    asked = Evaluation(("ml-1m",), ("noise",), ("converged",), runs=3, methods=(AH_NEWTON,))
    with pytest.raises(KeyboardInterrupt):
        evaluate(asked, tmp_path / "results")
    store = Store(tmp_path / "results")
    assert store.names() == [asked.datasets[0] + "-noise-converged"]
    assert [run["run"] for run in store.grown(store.names()[0], "runs")] == ran == [0, 1]
    with pytest.raises(OutputExists, match="2 of these 3"):
        evaluate(asked, tmp_path / "results")
    monkeypatch.setattr(module, "run_case", run_case)
    before = store.grown(store.names()[0], "runs")
    results = evaluate(asked, tmp_path / "results", resume=True)
    assert [r["run"] for r in results if r["method"] == AH_NEWTON] == [0, 1, 2]
    *kept, added = store.grown(store.names()[0], "runs")
    assert kept == before
    assert added["commit"] == store.commit
    assert added["results"] == [r for r in results if r["run"] == 2]


def test_runs_of_another_seed_are_other_runs(tmp_path: Path) -> None:
    store, first = Store(tmp_path), Case("ml-1m", "noise", "paper", 0)
    for case in (replace(first, seed=1), replace(first, run=1), first):
        add_run(store, case, {"results": [case.seed, case.run]})
    assert find_run(store, first)["results"] == [0, 0]
    assert find_run(store, replace(first, seed=1))["results"] == [1, 0]
    assert find_run(store, replace(first, run=1, seed=1)) == {}
    stored = [(run["seed"], run["run"]) for run in store.grown(first.name, "runs")]
    assert stored == [(0, 0), (0, 1), (1, 0)]


def test_an_unknown_method_and_a_data_set_without_settings_are_refused() -> None:
    with pytest.raises(SettingError, match="No method is called Magic"):
        Evaluation(("ml-1m",), ("noise",), ("paper",), methods=("Magic",))
    with pytest.raises(SettingError, match="tune"):
        chosen_settings("ml-100k", "paper")


def test_tables_show_means_deviations_and_the_papers_value(records: list[dict[str, Any]]) -> None:
    shown = {table.title: table for table in tables(records)}
    consistency = shown["ml-1m, noise, paper regime — Consistency: forgetting users"]
    row = next(row for row in consistency.rows if row[0] == ORIGINAL)
    values = [r["re_predict"] for r in records if r["method"] == ORIGINAL and r["regime"] == "paper"]
    assert row[1] == f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f} [0.4643]"
    converged = shown["ml-1m, noise, converged regime — Consistency: forgetting users"]
    assert not any("[" in cell for row in converged.rows for cell in row[1:])


def test_goals_are_judged_by_the_figures(records: list[dict[str, Any]]) -> None:
    table = goals_table(records, "ml-1m", "converged")
    assert table is not None
    near = next(row for row in table.rows if row[0] == f"{AH_NEWTON}: Re-predict")
    ours, wanted = (
        np.mean([r["re_predict"] for r in records if r["method"] == name and r["regime"] == "converged"])
        for name in (AH_NEWTON, RETRAIN)
    )
    assert near[3] == ("yes" if abs(ours - wanted) <= 0.005 else "**no**")
    assert goals_table(records, "amazon-14core", "paper") is None
    speeds = [row for row in table.rows if "to the same loss" in row[0]]
    assert len(speeds) == len(SAME_LOSS)
    ratios = [
        r["speed_up_same_loss_passes"]
        for r in records
        if r["method"] == AH_NEWTON and r["regime"] == "converged"
    ]
    assert speeds[0][2] == f"{np.mean(ratios):.1f} (median {np.median(ratios):.1f})"
    of_paper = goals_table(
        [r for r in records if r["method"] != HF_NEWTON or r["regime"] == "paper"], "ml-1m", "converged"
    )
    assert of_paper is None  # without all the methods there is nothing to judge


FASTEST = f"{AH_NEWTON}: speed-up over the fastest retraining to its loss"
RBO = {"10": 0.8, "20": 0.8, "50": 0.8}
AS_WANTED: dict[str, Any] = {
    "rbo": RBO,
    "re_predict": 0.1,
    "recall": {"10": 0.5},
    "ndcg": {"10": 0.5},
    "others": {},
    "n_users": {"forgetting": 64},
    "loss": 1.0,
    "speed_up": 100.0,
    "speed_up_same_loss_passes": 100.0,
    "speed_up_same_loss_newton": 100.0,
    "speed_up_same_loss_cg": 100.0,
    "seconds": 100.0,
    "passes": 3,
}


def goals(regime: str, changes: dict[str, dict[str, Any]]) -> dict[str, str]:
    """What is said of the goals on ml-1m, all figures as wanted but some of some methods."""
    figures = {name: dict(AS_WANTED) for name in (*FEW, WARM_START)}
    figures[ORIGINAL]["ndcg"] = {"10": 0.4}
    figures[WARM_START] |= {"speed_up": 2.0, "rbo": RBO | {"10": 0.79}}
    figures[AH_NEWTON]["seconds"] = 1.0
    for name, change in changes.items():
        figures[name] |= change
    case = {"dataset": "ml-1m", "scenario": "noise", "regime": regime}
    table = goals_table([{**case, "method": name, **each} for name, each in figures.items()], "ml-1m", regime)
    assert table is not None
    said: dict[str, str] = {}
    for row in table.rows:  # NDCG@10 is wanted twice
        said[row[0]] = NO if NO in (said.get(row[0]), row[3]) else row[3]
    return said


def missed(regime: str, method: str, changes: dict[str, Any]) -> list[str]:
    """The goals that are not reached, all figures as wanted but some of one method."""
    said = goals(regime, {method: changes})
    assert set(said.values()) <= {YES, NO}
    return [goal for goal, verdict in said.items() if verdict == NO]


@pytest.mark.parametrize("name", [AH_NEWTON, HF_NEWTON])
@pytest.mark.parametrize(
    ("regime", "changes", "goals"),
    [
        ("paper", {}, []),
        ("paper", {"rbo": RBO | {"20": 0.7999}}, ["RBO@20"]),
        ("paper", {"rbo": RBO | {"50": 0.7999}}, ["RBO@50"]),
        ("paper", {"rbo": RBO | {"10": 0.7999}}, ["RBO@10"]),
        ("paper", {"re_predict": 0.121}, ["Re-predict"]),
        ("paper", {"re_predict": 0.079}, ["Re-predict"]),
        ("paper", {"recall": {"10": 0.489}}, ["Recall@10"]),
        ("paper", {"ndcg": {"10": 0.489}}, ["NDCG@10"]),  # less than Retrain
        ("paper", {"ndcg": {"10": 0.4}}, ["NDCG@10"]),  # nor more than Original
        ("converged", {}, []),
        ("converged", {"rbo": RBO | {"10": 0.7999}}, ["RBO@10"]),
        ("converged", {"re_predict": 0.106}, ["Re-predict"]),
        ("converged", {"recall": {"10": 0.506}}, ["Recall@10"]),
        ("converged", {"ndcg": {"10": 0.494}}, ["NDCG@10"]),
    ],
)
def test_a_goal_that_is_missed_is_said_to_be(
    name: str, regime: str, changes: dict[str, Any], goals: list[str]
) -> None:
    assert missed(regime, name, changes) == [f"{name}: {goal}" for goal in goals]


@pytest.mark.parametrize(
    ("regime", "method", "changes", "goals"),
    [
        ("paper", AH_NEWTON, {"rbo": RBO | {"10": 0.806}}, ["AH and HF agree in RBO@10"]),
        ("paper", AH_NEWTON, {"speed_up": 49.9}, [f"{AH_NEWTON}: speed-up over Retrain"]),
        ("paper", HF_NEWTON, {"speed_up": 3.43}, [f"{HF_NEWTON}: speed-up over Retrain"]),
        ("paper", AH_NEWTON, {"seconds": 2.1}, [FASTEST]),
        ("converged", SAME_LOSS_CG, {"seconds": 9.9}, [FASTEST]),
        ("paper", WARM_START, {"rbo": RBO | {"10": 0.81}}, [f"{AH_NEWTON}: RBO@10 beside Warm-Start's"]),
        ("paper", WARM_START, {"speed_up": 100.0}, [f"{HF_NEWTON} faster than Warm-Start"]),
        ("paper", RETRAIN, {"recall": {"10": 0.01}}, ["Retrain: Recall@10"]),
        ("paper", RETRAIN, {"ndcg": {"10": 0.01}}, ["Retrain: NDCG@10"]),
        (
            "converged",
            AH_NEWTON,
            {"speed_up_same_loss_passes": 9.9},
            [f"{AH_NEWTON}: speed-up over accelerated ALS, to the same loss"],
        ),
        (
            "converged",
            AH_NEWTON,
            {"speed_up_same_loss_newton": 9.9},
            [
                f"{AH_NEWTON}: speed-up over accelerated ALS that ends with joint Newton steps, to the same loss"
            ],
        ),
    ],
)
def test_a_goal_between_methods_that_is_missed_is_said_to_be(
    regime: str, method: str, changes: dict[str, Any], goals: list[str]
) -> None:
    assert missed(regime, method, changes) == goals


def test_goals_that_cannot_be_missed_say_nothing() -> None:
    only_forgetting = {name: {"passes": 1} for name in (AH_NEWTON, HF_NEWTON)}
    said = goals("paper", only_forgetting)
    quality = ("Re-predict", "Recall@10", "NDCG@10", "RBO@10", "RBO@50", "speed-up over Retrain")
    for name in (AH_NEWTON, HF_NEWTON):
        assert {said[f"{name}: {goal}"] for goal in quality} == {SAYS_NOTHING}
    others = (FASTEST, f"{AH_NEWTON}: RBO@10 beside Warm-Start's", f"{HF_NEWTON} faster than Warm-Start")
    assert {said[goal] for goal in (*others, "AH and HF agree in RBO@10")} == {SAYS_NOTHING}
    one = goals("paper", only_forgetting | {AH_NEWTON: {"passes": 2}})
    assert {one[f"{AH_NEWTON}: {goal}"] for goal in quality} == {YES}
    assert {one[f"{HF_NEWTON}: {goal}"] for goal in quality} == {SAYS_NOTHING}
    assert one["AH and HF agree in RBO@10"] == YES


def test_a_miss_without_a_pass_is_a_miss() -> None:
    missed = {"passes": 1, "rbo": RBO | {"20": 0.1}, "speed_up": 1.0}
    said = goals("paper", {AH_NEWTON: missed})
    assert said[f"{AH_NEWTON}: RBO@20"] == NO
    assert said[f"{AH_NEWTON}: speed-up over Retrain"] == NO
    assert said[f"{AH_NEWTON}: RBO@10"] == SAYS_NOTHING


def test_where_passes_began_in_some_runs_a_goal_is_reached_over_those_too() -> None:
    case = {"dataset": "ml-1m", "scenario": "noise", "regime": "paper"}
    records = [
        {**case, "method": name, "run": run, **AS_WANTED}
        | ({"rbo": RBO | {"10": rbo, "20": 0.9}, "passes": passes} if name == AH_NEWTON else {})
        for run, (rbo, passes) in enumerate([(0.9, 1), (0.9, 1), (0.7, 2)])
        for name in (*FEW, WARM_START)
    ]
    table = goals_table(records, "ml-1m", "paper")
    assert table is not None
    rows = {row[0]: row for row in table.rows}
    over = "over the 1 of 3 runs in which passes began"
    assert rows[f"{AH_NEWTON}: RBO@10"][2:] == (f"0.8333 (median 0.9000); {over} 0.7000 (median 0.7000)", NO)
    assert rows[f"{AH_NEWTON}: RBO@20"][3] == YES


def test_a_speed_over_a_retraining_that_was_not_run_or_did_not_get_there_is_no_speed() -> None:
    beyond = {name: {"loss": 2.0} for name in (RETRAIN, RETRAIN_STAR, *SAME_LOSS)}
    said = goals("converged", beyond)
    assert said[FASTEST] == NONE_THERE
    assert [said[goal] for goal in said if "to the same loss" in goal] == 3 * [NONE_THERE]
    case = {"dataset": "ml-1m", "scenario": "noise", "regime": "paper"}
    earlier = [name for name in (*FEW, WARM_START) if name != SAME_LOSS_CG]
    table = goals_table([{**case, "method": name, **AS_WANTED} for name in earlier], "ml-1m", "paper")
    assert table is not None
    assert next(row for row in table.rows if row[0] == FASTEST)[3] == UNKNOWN


def test_a_speed_up_tells_over_how_many_runs_it_is() -> None:
    assert OverFastest([2.0, 4.0], ["a", "b"]).told(digits=1) == "3.0 (median 3.0)"
    some = OverFastest([2.0, math.nan, 4.0], ["a", None, "b"])
    assert some.told(digits=2) == "3.00 (median 3.00) over 2 of 3 runs; in 1 no retraining got there"
    assert OverFastest([math.nan], [None]).told(digits=1) == NONE_THERE


def test_medians_stand_beside_means_and_are_named_where_they_say_otherwise() -> None:
    case = {"dataset": "ml-1m", "scenario": "noise", "regime": "paper"}
    records = [
        {**case, "method": name, "run": run, **AS_WANTED}
        | ({"rbo": RBO | {"10": value}} if name == AH_NEWTON else {})
        for run, value in enumerate((0.1, 0.9, 0.9))
        for name in (*FEW, WARM_START)
    ]
    table = goals_table(records, "ml-1m", "paper")
    assert table is not None
    row = next(row for row in table.rows if row[0] == f"{AH_NEWTON}: RBO@10 beside Warm-Start's")
    assert row[1] == "> 0.8000 (median 0.8000), Warm-Start"
    assert row[2] == (
        "0.6333 (median 0.9000); higher in 2 of 3 runs, Warm-Start's in 1; by medians the other way"
    )
    assert row[3] == NO


def test_the_page_is_made_of_the_results_alone(
    tmp_path: Path, records: list[dict[str, Any]], data: Any
) -> None:
    store = Store(tmp_path / "results", commit="abc")
    store.create()
    kept = [r for r in records if r["regime"] == "converged"]
    for run in (0, 1):
        measured = {"data": sizes(data), "results": [r for r in kept if r["run"] == run]}
        add_run(store, Case("ml-1m", "noise", "converged", run), measured)
    assert write_page(tmp_path / "results", tmp_path / "results.md") == 1
    assert "120 [6,040]" in (tmp_path / "results-settings.md").read_text()
    page = (tmp_path / "results-noise.md").read_text()
    assert "2 runs. Measured at commit `abc`." in page
    for picture in ("rbo-seconds", "re-predict", "loss-passes"):
        assert f"(results/ml-1m-noise-converged-{picture}.svg)" in page
        assert (tmp_path / "results" / f"ml-1m-noise-converged-{picture}.svg").read_text().startswith("<svg")
    store.write("foreign", {"figures": []})
    with pytest.raises(DataError, match="no results of"):
        write_page(tmp_path / "results", tmp_path / "results.md")


def test_the_search_chooses_the_best_trial_and_repeats_none(
    tmp_path: Path, data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("studies.tune.OF_OBJECTIVE", {"l2": (0.01, 1.0), "w0": (0.1,)})
    monkeypatch.setattr("studies.tune.START", SMALL)
    said: list[str] = []
    found = tune("ml-1m", "converged", data, tmp_path, announce=said.append)
    assert len(said) == len(found["trials"]) == 2
    best = max(found["trials"], key=lambda trial: trial["ndcg@10"])
    assert found["chosen"] == best["settings"]
    tune("ml-1m", "converged", data, tmp_path, announce=said.append)
    assert len(said) == 2


@needs_data
@pytest.mark.parametrize("name", paper_datasets())
def test_the_data_sets_have_the_sizes_the_paper_prints(name: str) -> None:
    measured, published = sizes(load_dataset(name)), paper()["datasets"][name]
    assert measured | {"density": round(measured["density"], 4)} == published


@needs_data
def test_the_smallest_evaluation_runs_as_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["reproduce", "--dataset", "amazon-14core", "--regime", "converged", "--runs", "1"]
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--out", str(tmp_path / "results"), "--json"])
    assert stop.value.code == 0
    results = {each["method"]: each for each in json.loads(capsys.readouterr().out)["results"]}
    retrain, ours, original = (results[name] for name in (RETRAIN, AH_NEWTON, ORIGINAL))
    assert abs(ours["re_predict"] - retrain["re_predict"]) < 0.1 * (
        original["re_predict"] - retrain["re_predict"]
    )
    assert ours["rbo"]["10"] > 0.97
    assert original["rbo"]["10"] < 0.9
