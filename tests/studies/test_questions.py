"""The studies: requests of the size asked for, and every solver on the same request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alteraser.data.interactions import Interactions, Side
from alteraser.optim.solvers import SOLVERS
from evidence.store import Store
from studies import questions, run
from studies.methods import AH_NEWTON, ORIGINAL, RETRAIN, RETRAIN_STAR
from studies.page import write_page
from studies.run import Case
from studies.settings import Settings
from studies.tables import study_table

SMALL = Settings(dim=4, l2=0.05)


def test_random_requests_are_as_many_as_asked_and_take_nobody_everything(data: Interactions) -> None:
    requests = questions.random_requests(data, 500, np.random.default_rng(1))
    mask = requests.match(data).mask
    assert mask.sum() == 500
    assert (data.without(mask).by(Side.USERS).counts[data.by(Side.USERS).occupied] > 0).all()


CASE = Case("ml-1m", "noise", "converged", 0)
FEW_VALUES = {
    "SIZES": (1, 0.1),
    "L2_FACTORS": (1.0,),
    "DIMS": (2, 4),
    "TRAINED_PASSES": (2,),
    "DELETED": (0.1,),
}


@pytest.fixture(scope="module")
def records_of(data: Interactions) -> Iterator[Callable[[str], questions.Records]]:
    """The records of a study on few values, made once for all tests; first-order solvers take long, so of few users."""

    @cache
    def made(study: str) -> questions.Records:
        of, settings = data, SMALL
        with pytest.MonkeyPatch.context() as patch:
            if study == "solvers":
                patch.setattr(run, "N_FORGETTING", 6)
                of, settings = questions.slice_of(data, 30, np.random.default_rng(0)), replace(SMALL, dim=2)
            return questions.STUDIES[study](CASE, of, settings, lambda _: None)

    with pytest.MonkeyPatch.context() as patch:
        for name, values in FEW_VALUES.items():
            patch.setattr(questions, name, values)
        yield made


def test_the_study_of_sizes_compares_with_retraining(data: Interactions, records_of: Any) -> None:
    records = records_of("sizes")
    n = round(0.1 * 0.8 * len(data))
    assert {(r["size"], r["method"]) for r in records if r["size"] == 1} == {(1, RETRAIN), (1, AH_NEWTON)}
    assert all(abs(r["size"] - n) <= 10 for r in records if r["size"] != 1)
    assert all(r["rbo"]["10"] == 1 for r in records if r["method"] == RETRAIN)
    assert len(study_table("sizes", records).rows) == 4


def test_the_study_of_solvers_has_them_all(records_of: Any) -> None:
    records = records_of("solvers")
    assert [record["solver"] for record in records] == [RETRAIN, *SOLVERS]
    losses = {record["solver"]: record["loss"] for record in records}
    assert losses["hf-newton"] == pytest.approx(losses["ah-newton"], rel=1e-3)
    assert len(study_table("solvers", records).rows) == len(records)


def test_the_study_of_enmf_solves_h_too(records_of: Any) -> None:
    records = {r["method"]: r for r in records_of("enmf")}
    assert list(records)[:3] == [ORIGINAL, RETRAIN, RETRAIN_STAR]
    ours, without = records["AltEraser with the step for Φ"], records["AltEraser"]
    assert ours["loss"] <= without["loss"] * (1 + 1e-4)
    assert records[ORIGINAL]["re_predict"] > ours["re_predict"]


def test_the_study_of_acceleration_has_loss_and_clock_of_each_way(records_of: Any) -> None:
    records = records_of("acceleration")
    assert [(r["task"], r["way"]) for r in records] == [
        (task, way) for way in questions.WAYS for task in ("train", "forget")
    ]
    for record in records:
        assert record["clock"] == sorted(record["clock"])
        assert len(record["clock"]) == len(record["losses"]) == record["passes"]
    ends = {r["way"]: r["loss"] for r in records if r["task"] == "train"}
    assert ends["joint Newton"] == pytest.approx(ends["Anderson"], rel=1e-4)


def test_the_study_of_conditions_varies_one_at_a_time(records_of: Any) -> None:
    records = records_of("conditions")
    assert [(r["varied"], r["value"]) for r in records[::4]] == [
        ("regularisation (l2)", 0.05),
        ("dimension", 2.0),
        ("dimension", 4.0),
        ("passes of training", 2.0),
        ("share deleted", 0.1),
    ]
    assert {r["method"] for r in records} == {ORIGINAL, RETRAIN, RETRAIN_STAR, AH_NEWTON}
    assert all("seconds" not in r for r in records if r["method"] == ORIGINAL)


def test_a_slice_has_the_users_asked_for_and_nothing_of_others(data: Interactions) -> None:
    part = questions.slice_of(data, 30, np.random.default_rng(0))
    assert part.n_users == 30
    frame = part.to_frame()
    chosen = set(frame["user_id"])
    assert set(frame.rows()) == {row for row in data.to_frame().rows() if row[0] in chosen}
    assert part.n_items == frame["item_id"].n_unique()


@pytest.mark.parametrize("study", ["sizes", "conditions", "acceleration", "solvers"])
def test_the_page_shows_a_study_with_its_figure(study: str, records_of: Any, tmp_path: Path) -> None:
    records = records_of(study)
    store = Store(tmp_path / "results")
    store.create()
    store.write("part", {"study": study, "data": {"users": 500}, "users": 120, "records": records})
    write_page(tmp_path / "results", tmp_path / "page.md")
    page = (tmp_path / "page-studies.md").read_text()
    assert "120 of its 500 users" in page
    assert study_table(study, records).markdown() in page
    drawn = tmp_path / "results" / "part.svg"
    assert drawn.exists() is (study != "solvers")
    if drawn.exists():
        assert "(results/part.svg)" in page
        assert drawn.read_text().count("<use ") > 4  # there are points
