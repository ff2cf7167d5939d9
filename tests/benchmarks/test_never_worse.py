"""What the benchmark of the loss records, and how it judges."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from alteraser.data.interactions import Interactions
from alteraser.live.scopes import AllRows
from benchmarks.never_worse import records, run
from benchmarks.never_worse.grid import FULL, KINDS, OPTIMUM, ORIGINALS, Grid, Setting, ask
from benchmarks.never_worse.page import PAGE, page
from benchmarks.never_worse.records import ALL, FORGETTING, WAYS, Cell, Record
from benchmarks.page import RESULTS
from evidence.store import Store

CELL = Cell("generated", "MF", "scaled", "float32", OPTIMUM, "account", "affected")
FINE = Record(CELL, [100.0], [99.0], [True], [0.1], 5.0, 0.1, gap_opened=1.0, gap_left=0.001, tolerance=0.06)
TINY = Grid((Setting("generated", "ENMF", "plain", "float64"),), originals=("1 pass",), n_generated=4_000)


def test_a_rise_is_relative_and_beyond_rounding_by_precision() -> None:
    risen = replace(FINE, loss_before=[100.0, 100.0], loss_after=[100.0 + 5e-5, 100.0 + 2e-4])
    assert risen.rises == pytest.approx([5e-7, 2e-6])
    assert risen.n_beyond_rounding == 1
    assert replace(risen, cell=replace(CELL, precision="float64")).n_beyond_rounding == 2
    assert FINE.n_beyond_rounding == 0


def test_a_loss_that_is_no_number_is_a_rise() -> None:
    lost = replace(FINE, loss_after=[math.nan])
    assert lost.rises == [math.inf]
    assert lost.n_beyond_rounding == 1


def test_only_who_says_that_it_converged_has_to_meet_the_tolerance() -> None:
    assert not FINE.breaks_its_word
    too_much = replace(FINE, gap_left=0.0601)
    assert too_much.share_left == pytest.approx(0.0601)
    assert too_much.breaks_its_word
    assert not replace(too_much, converged=[False]).breaks_its_word
    assert not replace(too_much, tolerance=0.07).breaks_its_word
    assert replace(FINE, gap_left=math.nan).breaks_its_word
    assert not replace(FINE, gap_opened=None, gap_left=None).breaks_its_word


def test_records_are_judged_by_the_tolerance_they_were_measured_with() -> None:
    before = replace(FINE, gap_left=0.02, tolerance=None)
    assert before.judged_by == 0.012
    assert before.breaks_its_word
    assert not replace(before, tolerance=0.06).breaks_its_word
    assert not replace(before, cell=replace(CELL, way="session")).breaks_its_word
    rows = page([replace(before, gap_left=0.01), replace(FINE, gap_left=0.03)]).text()
    assert "| 0.01000 of 0.012 | yes |" in rows  # nearest to its tolerance


def test_the_page_shows_every_rise_and_every_broken_word() -> None:
    fine = page([FINE]).text()
    assert "**no**" not in fine
    assert "0 of 1 requests raised the loss; 0 of 1 cells converged" in fine
    risen = replace(FINE, loss_after=[101.0], gap_left=0.5)
    missed = page([FINE, risen]).text()
    assert missed.count("**no**") == 2
    assert "1 of 2 requests raised the loss; 1 of 2 cells converged" in missed
    row = next(line for line in missed.splitlines() if line.startswith("| affected"))
    assert row == (
        "| affected | optimum | 2 | 2 | 1.0e-02 | 1 | **no** | 2 | 0.50000 of 0.06 | **no** | 0.100 |"
    )
    assert "Where the loss rose most" in missed
    assert "Where most was left" in missed


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    unknown = replace(FINE, cell=replace(CELL, original="default"), gap_opened=None, gap_left=None)
    store = Store(tmp_path)
    assert records.read(store) == []
    records.write([replace(FINE, commit="abc"), unknown], store)
    assert records.read(store) == [replace(FINE, commit="abc"), unknown]
    assert [path.name for path in tmp_path.iterdir()] == ["never-worse.json"]


def test_the_page_in_docs_is_made_of_the_records() -> None:
    made = page(records.read(Store(RESULTS))).text()
    assert made == PAGE.read_text(encoding="utf-8"), "run `make bench-page`"


@pytest.mark.parametrize("name", ["ml-100k", "amazon-14core", "generated"])
def test_every_two_values_of_different_settings_meet_on_every_data_set(name: str) -> None:
    settings = [setting for setting in FULL.settings if setting.data == name]
    assert len(settings) == 4
    for one, other in combinations(("model", "penalty", "precision"), 2):
        assert len({(getattr(setting, one), getattr(setting, other)) for setting in settings}) == 4


def test_all_combinations_of_settings_are_measured_on_some_data() -> None:
    assert len({(each.model, each.penalty, each.precision) for each in FULL.settings}) == 8
    cells = [cell for each in FULL.settings for original in ORIGINALS for cell in FULL.cells(each, original)]
    assert len(cells) == len(set(cells)) == 72 * 17
    assert {cell.way for cell in cells} == set(WAYS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_deletes_what_the_benchmark_thinks_it_does(
    kind: str, random_data: Callable[..., Interactions]
) -> None:
    data = random_data(60, 40, seed=2, density=0.2)
    (asked,) = ask(replace(CELL, request=kind), data, 1)
    np.testing.assert_array_equal(asked.requests.match(data).mask, asked.deleted)
    assert asked.deleted.any()


def test_requests_in_a_row_ask_for_what_is_still_there(random_data: Callable[..., Interactions]) -> None:
    data = random_data(60, 40, seed=2, density=0.3)
    left = np.ones(len(data), dtype=bool)
    asked = ask(replace(CELL, request="mixed"), data, 12)
    assert len(asked) == 12
    for each in asked:
        assert each.deleted.any()
        assert not (each.deleted & ~left).any()
        matched = each.requests.match(data.only(left)).mask
        np.testing.assert_array_equal(np.flatnonzero(left)[matched], np.flatnonzero(each.deleted))
        left &= ~each.deleted


def test_cells_that_are_done_are_not_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[Cell] = []

    def measure(_: run.Trial, cell: Cell, in_a_row: int) -> Record:
        assert in_a_row == TINY.in_a_row
        measured.append(cell)
        return replace(FINE, cell=cell)

    monkeypatch.setattr(run.Trial, "measure", measure)
    cells = TINY.cells(TINY.settings[0], "1 pass")
    (found,) = run.measure(TINY, None, done=cells[:5])
    assert measured == cells[5:] == [record.cell for record in found]
    assert list(run.measure(TINY, None, done=cells)) == []


def test_passes_never_raise_the_loss_of_an_original_that_stopped_early() -> None:
    (setting,) = TINY.settings
    data = run._open("generated", TINY.n_generated, None)
    trial = run.Trial.of(setting, "1 pass", data)
    for cell in TINY.cells(setting, "1 pass"):
        if cell.way in (FORGETTING, ALL):
            record = trial.measure(cell, 1)
            assert record.tolerance == (None if cell.way == FORGETTING else AllRows().tolerance)
            assert record.n_beyond_rounding == 0, asdict(cell)
            assert record.loss_before[0] == pytest.approx(
                trial.original.loss(data.without(ask(cell, data, 1)[0].deleted)), rel=1e-9
            )
