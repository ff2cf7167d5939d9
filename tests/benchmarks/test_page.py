"""The page shows a miss as a miss."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import huge, page, page_scaling, sequence
from benchmarks.passes import WHOLE
from evidence.page import UNKNOWN
from evidence.store import Store

Result = dict[str, Any]


def read(name: str) -> Result:
    return Store(page.RESULTS).read(name)


def at_its_limits(name: str) -> Result:
    """A result in which every figure that has a limit is exactly there."""
    result = read(name)
    if name == "sequence":
        result["limits"] = sequence.LIMITS
    if name == "requests":
        for each in result["retraining_seconds"]:
            each |= {"rival": "joint Newton", "reached": True}
    if name in ("requests", "sequence"):
        result["summary"] |= result["limits"]
    elif name == "footprint":
        result |= result["limits"]
    elif name == "passes":
        for figure in result["figures"]:
            figure["ratio"] = figure["limit"]
            if "rate" in figure:
                figure["rate"] = figure["rate_limit"]
                figure["operations"][WHOLE] = 1.5 * figure["operations"]["pass"]
    elif name == "learning":
        for each in result["figures"]:
            for of in each["kinds"]:
                of["passes"] = [result["limits"][of["kind"]]] * 3
    elif name == "partial-fit":
        result["ratio"] = result["limit"]
        for each in result["losses"]:
            each["ours_above"] = each["theirs_above"]
    elif name == "batches":
        for figure in result["figures"]:
            figure["ratio"] = result["limits"]["ratio"]
            figure["rbo"] |= {"all": result["limits"]["rbo_below"], "affected": 0.0}
    else:
        for figure in result["figures"]:
            figure["peak_over_held"] = result["limits"]["memory"]
            figure.pop("peak_gb_with_session", None)
            figure["peak_gb_with_live_model"] = figure["peak_gb"]
            figure["p50_ms"] = {"1": 1.0, "30": result["limits"]["p50_growth_to_30"]}.get(figure["size"], 1.0)
        result["growth"]["growth"] = result["limits"]["p50_growth_to_30"]
    return result


def n_missed(name: str, result: Result) -> int:
    return "\n".join(page.SECTIONS[name](result)).count("**no**")


def worse(where: Callable[[Result], Result], key: str, *, by: float = 1.0001) -> Callable[[Result], None]:
    """Makes one figure a little worse."""

    def change(result: Result) -> None:
        where(result)[key] *= by

    return change


def whole(result: Result) -> Result:
    return result


def summary(result: Result) -> Result:
    found: Result = result["summary"]
    return found


def last(result: Result) -> Result:
    figure: Result = result["figures"][-1]
    return figure


def first(result: Result) -> Result:
    figure: Result = result["figures"][0]
    return figure


def of_size(result: Result, size: str) -> Result:
    figure: Result = next(each for each in result["figures"] if each["size"] == size)
    return figure


MISSES: list[tuple[str, str, Callable[[Result], None]]] = [
    *[("requests", key, worse(summary, key)) for key in ("p50_ms", "gap_left", "own_gap")],
    *[("requests", key, worse(summary, key, by=0.999)) for key in ("rbo", "speed_up")],
    *[
        ("sequence", key, worse(summary, key))
        for key in ("last_over_first", "memory_growth", "largest_drift", "largest_true_drift")
    ],
    *[("footprint", key, worse(whole, key)) for key in ("help_seconds", "demo_seconds", "als_ml_1m_peak_gb")],
    ("learning", "passes", lambda result: last(result)["kinds"][0].update(passes=[1.0, 1.0, 1.0])),
    ("partial-fit", "ratio", worse(whole, "ratio")),
    ("partial-fit", "loss", lambda result: result["losses"][0].update(ours_above=1e9)),
    ("passes", "ratio", worse(last, "ratio")),
    ("passes", "rate", worse(first, "rate", by=0.999)),
    ("batches", "ratio", worse(last, "ratio")),
    ("batches", "rbo", worse(lambda result: last(result)["rbo"], "all")),
    ("scaling", "memory", worse(last, "peak_gb_with_live_model")),
    ("scaling", "growth", worse(lambda result: result["growth"], "growth")),
    ("scaling", "growth", worse(lambda result: of_size(result, "30"), "p50_ms")),
]


@pytest.mark.parametrize(("name", "figure", "miss"), MISSES, ids=[f"{name}-{key}" for name, key, _ in MISSES])
def test_a_figure_at_its_limit_says_yes_and_one_beyond_it_no(
    name: str, figure: str, miss: Callable[[Result], None]
) -> None:
    result = at_its_limits(name)
    assert n_missed(name, result) == 0
    miss(result)
    assert n_missed(name, result) == 1, figure


@pytest.mark.parametrize("name", ["requests", "sequence", "footprint", "batches", "scaling"])
def test_every_limit_of_a_result_is_one_of_those(name: str) -> None:
    tried = {figure for section, figure, _ in MISSES if section == name}
    renamed = {"rbo_below": "rbo", "p50_growth_to_30": "growth"}
    assert {renamed.get(limit, limit) for limit in at_its_limits(name)["limits"]} == tried


def test_what_was_measured_before_a_change_of_protocol_is_shown_with_its_verdict() -> None:
    figures = [
        {"what": "time", "value": 2.5, "limit": 2.0, "at_least": False},
        {"what": "speed", "value": 2.5, "limit": 2.0, "at_least": True},
    ]
    text = "\n".join(page.earlier({"commit": "abc", "how": "it was otherwise", "figures": figures}))
    assert "at commit `abc`, it was otherwise" in text
    stored = page.earlier({"stored_at": "abc", "how": "it was otherwise", "figures": figures})[0]
    assert "at a commit that was not recorded (stored at `abc`), it was otherwise" in stored
    assert "| time | at most 2 | 2.5 | **no** |" in text
    assert "| speed | at least 2 | 2.5 | yes |" in text


def test_a_size_that_failed_is_shown_as_failed() -> None:
    result = read("scaling")
    n_columns = page_scaling.scaling(result)[2].splitlines()[0].count("|")
    result["figures"][1] = {"size": "3", "failed": ["killed"]}
    result["growth"] = {"failed": ["killed"]}
    result["figures"] = [each for each in result["figures"] if each["size"] != "30"]
    text = "\n".join(page_scaling.scaling(result))
    row = next(line for line in text.splitlines() if line.startswith("| 3 M"))
    assert "**failed**" in row
    assert row.count("|") == n_columns
    assert text.count("**failed**") == 3


def test_a_rate_counts_the_operations_done_and_stands_beside_that_of_whole_matrices() -> None:
    result = at_its_limits("passes")
    row = next(row for row in page.SECTIONS["passes"](result)[-1].splitlines() if row.startswith("| exact"))
    limit = result["figures"][0]["rate_limit"]
    assert row.split(" | ")[-3:-1] == [f"{limit:.0%}", f"{1.5 * limit:.0%}"]
    del result["figures"][0]["operations"][WHOLE]
    row = next(row for row in page.SECTIONS["passes"](result)[-1].splitlines() if row.startswith("| exact"))
    assert row.split(" | ")[-3:] == [UNKNOWN, f"{limit:.0%}", f"{UNKNOWN} |"]


def test_a_speed_over_a_retraining_that_is_not_the_fastest_known_has_no_verdict() -> None:
    result = read("requests")
    for each in result["retraining_seconds"]:
        each.pop("rival", None)
    row = next(
        row for row in page.SECTIONS["requests"](result)[2].splitlines() if "fastest retraining" in row
    )
    assert row.endswith(f"{UNKNOWN} |")


def test_growth_is_told_both_ways_of_results_that_hold_one() -> None:
    result = read("scaling")
    by_size = {each["size"]: each for each in result["figures"]}
    apart = by_size["30"]["p50_ms"] / by_size["1"]["p50_ms"]
    rows = [row.split(" | ") for row in page_scaling.scaling(result)[-1].splitlines()]
    in_turn, own = (next(row for row in rows if way in row[0]) for way in ("in turn", "of its own"))
    assert in_turn[-2] == f"{result['growth']['growth']:.2f}"
    assert own[-2] == f"{apart:.2f}"


def test_memory_has_a_verdict_while_a_model_is_trained_and_one_with_a_live_model() -> None:
    result = at_its_limits("scaling")
    figure, n = last(result), len(result["figures"])
    held = (figure["peak_gb"] - figure["base_gb"]) / figure["peak_over_held"]
    figure["peak_gb_with_session"] = figure["base_gb"] + 4.5 * held
    del figure["peak_gb_with_live_model"]  # as it was called before
    _, _, rows, told, _ = page_scaling.scaling(result)
    assert rows.splitlines()[-1].split(" | ")[-5:] == [
        "4.0",
        "yes",
        f"{figure['peak_gb_with_session']:.2f}",
        "4.5",
        "**no** |",
    ]
    assert f"at {n} of {n} sizes while a model is trained, and at {n - 1} with a live model opened" in told
    del figure["peak_gb_with_session"]
    assert page_scaling.scaling(result)[2].splitlines()[-1].endswith(f"| {UNKNOWN} |  | {UNKNOWN} |")
    figure["peak_over_held"] *= 1.01
    assert page_scaling.scaling(result)[2].count("**no**") == 1


def test_hundreds_of_millions_have_a_verdict_on_memory_and_on_time() -> None:
    figure = {
        "millions": 1,
        "interactions": 10,
        "users": 2,
        "audience": 4.0,
        "items": 3,
        "seconds": {"indexing": 1.0},
        "p50_ms": 1.0,
        "p99_ms": 2.0,
        "peak_gb": 13.0,
    }
    result = {"figures": [figure, figure | {"millions": 256}], "p50_growth": 2.0, "limits": huge.LIMITS}
    assert n_missed("huge", result) == 0
    assert n_missed("huge", result | {"p50_growth": 2.01}) == 1
    assert n_missed("huge", result | {"figures": [figure, figure | {"peak_gb": 13.1}]}) == 1


def test_how_the_true_drift_is_found_is_told() -> None:
    told = "\n".join(
        page.SECTIONS["sequence"](read("sequence") | {"moments_above": 0.8, "gradient_left": 0.3})
    )
    assert "the first at which the estimate of the timed run is above 0.8 of the limit" in told
    assert "at most 0.3 of the model's gradient" in told


def test_medians_that_say_otherwise_stand_in_the_cell() -> None:
    result = at_its_limits("batches")
    limit = result["limits"]["rbo_below"]
    for each in result["figures"]:
        each["rbo_median"] = {"affected": 0.0, "all": 2 * limit}
    rows = page.SECTIONS["batches"](result)[-1].splitlines()[2:]
    assert all(" | yes; by medians the other way | " in row for row in rows)


def test_the_page_in_docs_is_made_of_the_results(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    page.write(Store(page.RESULTS), tmp_path / "benchmarks.md")
    made = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    assert made == page.PAGE.read_text(encoding="utf-8"), "run `make bench-page`"
