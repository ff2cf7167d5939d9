"""Tables, plots and pages say what they were given, whatever characters it holds."""

from __future__ import annotations

import io
from xml.parsers.expat import ParserCreate

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from alteraser.data.interactions import Interactions
from alteraser.measure.compare import Report
from alteraser.report import plots
from alteraser.report.comparison import provenance, sections
from alteraser.report.datasheet import datasheet
from alteraser.report.html import Figure, Line, Listing, Section, page
from alteraser.report.tables import Table, details, summary, times

NASTY = ("<script>alert(1)</script>", "a & b", '"quoted"', "$x^{$", "[/red]", "--->", "模型 🙂", "_hidden")


@pytest.fixture
def report() -> Report:
    def figures(x: float) -> dict[str, dict[int, float]]:
        return {"coverage": {10: x, 20: x}, "rbo": {10: x, 20: x}, "recall": {10: x / 2, 20: x}}

    return Report(
        values={
            "original": {"forgetting": figures(0.25), "others": figures(0.75)},
            "retrained": {"forgetting": figures(1.0), "others": figures(1.0)},
        },
        re_predict={"original": 0.5, "retrained": 0.125},
        loss={"original": 12.0, "retrained": 10.0},
        n_users={"forgetting": 3, "others": 40},
        reference="retrained",
        ks=(10, 20),
    )


def in_terminal(table: Table, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(table.terminal())
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_summary_has_a_column_for_each_model(report: Report) -> None:
    table = summary(report, seconds={"original": 2.0, "retrained": 1.5})
    assert table.columns == ("", "original", "retrained")
    rows = {name: cells for name, *cells in table.rows}
    assert rows["Re-predict score of the forgotten pairs"] == ["0.5000", "0.1250"]
    assert rows["RBO@10, forgetting users"] == ["0.2500", "1.0000"]
    assert rows["Recall@10, other users"] == ["0.3750", "0.5000"]
    assert rows["Loss on the remaining data"] == ["12.0", "10.0"]
    assert rows["Seconds to forget"] == ["2.000", "1.500"]
    assert not any(name.startswith("NDCG") for name in rows), "a figure that nobody has is no row"
    assert table.title == "RBO: agreement with retrained"


def test_the_details_have_every_k(report: Report) -> None:
    table = details(report, "others")
    assert table.title == "Other users (40)"
    assert [name for name, *_ in table.rows] == [
        "RBO@10",
        "RBO@20",
        "Recall@10",
        "Recall@20",
        "Coverage@10",
        "Coverage@20",
    ]


def test_a_table_in_markdown() -> None:
    table = Table("Title", ("", "a|b"), (("x", "1"), ("<i>\n y\\", "2.5")))
    assert table.markdown() == "|  | a\\|b |\n| --- | ---: |\n| x | 1 |\n| &lt;i> y\\\\ | 2.5 |\n"


def test_long_cells_are_not_cut() -> None:
    shown = in_terminal(Table("", ("a", "b"), (("x" * 70, "12"), ("y", "3"))), width=40)
    assert shown.count("x") == 70
    assert "│  3 │" in shown


def test_a_table_in_a_terminal_shows_cells_as_they_are() -> None:
    shown = in_terminal(
        Table("[b]Title", ("", *NASTY), (("a:smile:[red]b", *NASTY), ("\x1b[2Jx", *NASTY))), 300
    )
    assert all(text in shown for text in (*NASTY, "[b]Title", "a:smile:[red]b"))
    assert "\x1b[2J" not in shown


def test_plots_are_xml_whatever_the_names() -> None:
    values = {name: float(number) for number, name in enumerate(NASTY)}
    drawn = [
        plots.bars(" ".join(NASTY), values, unit=" s"),
        plots.bars("One", {"one": 0.0}),
        plots.curves("Curves", {name: ([0, 1], [1, 0.1]) for name in NASTY}, x="x", y="y", log=True),
        plots.curves("None", {"empty": ([], [])}, x="x", y="y", log=True),
    ]
    for svg in drawn:
        assert svg.startswith('<svg role="img" aria-label=')
        assert texts_in(svg)
    for svg in (drawn[0], drawn[2]):
        assert set(NASTY) <= texts_in(svg)


def texts_in(svg: str) -> set[str]:
    """What the <text> elements say; raises unless the whole is XML."""
    texts: list[str] = []
    inside = False

    def start(name: str, _: object) -> None:
        nonlocal inside
        inside = name == "text"
        if inside:
            texts.append("")

    def end(_: str) -> None:
        nonlocal inside
        inside = False

    def say(text: str) -> None:
        if inside:
            texts[-1] += text

    parser = ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, say
    parser.Parse(svg, True)
    return set(texts)


def test_a_plot_is_the_same_each_time() -> None:
    assert plots.bars("T", {"a": 1.0, "b": 2.0}) == plots.bars("T", {"a": 1.0, "b": 2.0})


def test_a_page_escapes_all_but_plots() -> None:
    nasty = NASTY[0]
    section = Section(
        nasty,
        text=nasty,
        figures=[Figure(nasty, nasty)],
        terms=[(nasty, nasty)],
        plots=[plots.bars(nasty, {nasty: 1.0})],
        tables=[Table(nasty, ("", nasty), ((nasty, nasty),))],
        lists=[Listing(nasty, [Line(nasty, marked=True), Line("plain")])],
    )
    made = page(nasty, nasty, [section])
    assert "<script" not in made
    assert made.count("<svg") == 1
    assert made.count('<li class="marked">') == 1
    assert "&lt;script&gt;" in made


def test_a_report_becomes_sections(report: Report) -> None:
    first, *rest = sections(report, seconds={"original": 2.0, "retrained": 1.5})
    assert len(first.plots) == 4  # forgotten pairs, RBO, recall, seconds
    assert [section.heading for section in rest] == [
        "All figures: forgetting users (3)",
        "All figures: other users (40)",
    ]
    assert all(section.folded for section in rest)
    assert [term for term, _ in first.terms] == ["Re-predict score", "RBO"], (
        "what is not measured is not explained"
    )


def test_ratios_have_two_digits() -> None:
    assert [times(ratio) for ratio in (1345.0, 99.6, 12.4, 9.96, 9.94, 0.52)] == [
        *("1,300 ×", "100 ×", "12 ×", "10 ×", "9.9 ×", "0.5 ×")
    ]


def test_long_values_of_models_have_rows_of_their_own() -> None:
    models = {"a": {"dim": "4", "digest": "f" * 64}, "b": {"dim": "4", "w0": "0.1", "digest": "e" * 64}}
    page_table, models_table = provenance(models, {"Date": "today"}).tables
    assert page_table.rows == (("Date", "today"), ("a: digest", "f" * 64), ("b: digest", "e" * 64))
    assert models_table.rows == (("dim", "4", "4"), ("w0", "", "0.1"))


def test_a_datasheet_of_known_data() -> None:
    data = Interactions.from_columns(
        pl.Series(["a", "a", "a", "b"]),
        pl.Series([1, 1, 2, 2]),
        pl.Series([1.0, 3.0, 2.0, 0.5]),
        pl.Series([5, None, 7, 6]),
    )
    sheet = datasheet(data)
    assert (sheet.users, sheet.items, sheet.events, sheet.interactions) == (2, 2, 4, 3)
    assert sheet.density == 0.75
    assert sheet.per_user == {"min": 1.0, "median": 1.5, "max": 2.0}
    assert sheet.weights == (0.5, 3.0)
    assert (sheet.times, sheet.null_times) == (("5", "7"), 1)
    assert sheet.sha256 == data.digest()
    assert "75.00%" in in_terminal(sheet.table("data"))
    bare = datasheet(data.only(np.array([True, True, False, False])))
    assert (bare.users, bare.items, bare.density) == (1, 1, 1.0)
