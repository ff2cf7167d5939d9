"""Pages say what was measured, where, and whether it was enough."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from evidence.page import Page, Verdict, measured_at, verdict, verdicts


@pytest.mark.parametrize("at_least", [False, True])
def test_what_is_no_number_is_a_miss(at_least: bool) -> None:
    assert verdict(math.nan, 1.0, at_least=at_least) == "**no**"
    assert verdict(None, 1.0, at_least=at_least) == "not measured"
    assert not Verdict.by_limit("x", math.nan, 1.0, at_least=at_least).reached


@pytest.mark.parametrize(
    ("value", "at_least", "row"),
    [
        (1.0, False, ("time", "at most 1", "1.00", "yes")),
        (1.01, False, ("time", "at most 1", "1.01", "**no**")),
        (1.0, True, ("time", "at least 1", "1.00", "yes")),
        (0.99, True, ("time", "at least 1", "0.99", "**no**")),
    ],
)
def test_a_verdict_is_by_the_limit(value: float, at_least: bool, row: tuple[str, ...]) -> None:
    table = verdicts("", [Verdict.by_limit("time", value, 1.0, at_least=at_least)])
    assert table.rows == (row,)
    assert table.columns == ("Figure", "Wanted", "Measured", "Reached")


def test_where_medians_say_otherwise_the_row_says_so() -> None:
    measured = [Verdict.by_limit("time", 1.0, 1.0, median=median).shown for median in (None, 0.5, 1.5)]
    assert measured == ["1.00", "1.00 (median 0.50)", "1.00 (median 1.50); by medians the other way"]
    assert Verdict("a", "b", "c", None, by_medians=True).shown == "c"
    assert verdicts("", [Verdict("a", "b", "c", False, by_medians=True)]).rows[0][2].startswith("c; ")


def test_commits_are_named_once_and_missing_ones_admitted() -> None:
    assert measured_at([{}, {"commit": None}]) == "Measured at a commit that was not recorded."
    assert measured_at([{"commit": "a"}, {"commit": "a"}]) == "Measured at commit `a`."
    both = measured_at([{"commit": "a"}, {}, {"commit": "b-dirty"}])
    assert both == "Measured at commit `a`, `b-dirty`; that of some figures was not recorded."


def test_parts_are_paragraphs_and_plots_are_linked_from_where_the_page_is(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "images").mkdir()
    page = Page(tmp_path / "docs" / "page.md")
    page.add("# Title", "Text.\n")
    page.plot(tmp_path / "images" / "plot.svg", "<svg/>", "a plot")
    page.write()
    written = (tmp_path / "docs" / "page.md").read_text(encoding="utf-8")
    assert written == "# Title\n\nText.\n\n![a plot](../images/plot.svg)\n"
    assert (tmp_path / "images" / "plot.svg").read_text(encoding="utf-8") == "<svg/>"
