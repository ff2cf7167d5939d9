"""The section on size, as docs/benchmarks.md shows it."""

from __future__ import annotations

import math
from typing import Any

from alteraser.report.plots import panels
from benchmarks import huge as of_huge
from benchmarks import scaling as of_scaling
from evidence.page import UNKNOWN, Verdict, table, verdict, verdicts, within


def scaling(result: dict[str, Any]) -> list[str]:
    limit = result["limits"]["memory"]
    columns = (
        "data",
        "interactions",
        "users",
        "items",
        "s per pass",
        "request, p50 ms",
        "p99 ms",
        "peak memory, GB",
        "over interactions and factors",
        f"at most {limit:g}",
        "peak with a live model, GB",
        "over interactions and factors",
        f"at most {limit:g}",
    )
    rows = [_row(each, limit, len(columns)) for each in result["figures"]]
    measured = [each for each in result["figures"] if "failed" not in each]
    audiences = [each["audience"] for each in measured] or [math.nan]
    how = (
        "Generated data (power laws, planted tastes, the same mean history) and amazon-book-kgat, d = 64; each in a "
        f"process of its own. Originals are trained by {of_scaling.PASSES} plain passes, far from their optimum, and "
        "their live models have no limit of drift: nothing here tells what clean-ups take. Requests delete half a "
        f"history, of users who are chosen to be alike at every size, not drawn: {of_scaling.HISTORY[0]} to "
        f"{of_scaling.HISTORY[1]} interactions, whose items have together an audience as near to "
        f"{of_scaling.AUDIENCE:,} as there is (medians from {min(audiences):,.0f} to {max(audiences):,.0f}). The first "
        "memory is the peak of the process while both indexes are built and the model is trained, the second that with "
        "a live model opened and asked, too. Beside each, without what the process held before the data, stands what "
        "it is over what the interactions and the factors take."
    )
    trained = sum(within(each["peak_over_held"], limit) for each in measured)
    opened = sum(within(live, limit) for each in measured if (live := _with_live_model(each)[1]) is not None)
    told = (
        f"Memory is within {limit:g} times what interactions and factors take at {trained} of "
        f"{len(result['figures'])} sizes while a model is trained, and at {opened} with a live model opened. From 1 to "
        "30 million interactions p50 grows:"
    )
    return ["## How it scales", how, table(columns, rows), told, _growth(result)]


def _row(figure: dict[str, Any], limit: float, n_columns: int) -> tuple[str, ...]:
    """What was measured at one size."""
    name = figure["size"] + (" M" if figure["size"].isdigit() else "")
    if "failed" in figure:
        return (name, "**failed**", *[""] * (n_columns - 2))
    peak, over_held = _with_live_model(figure)
    return (
        name,
        *(f"{figure[key]:,}" for key in ("interactions", "users", "items")),
        f"{figure['seconds_per_pass']:.2f}",
        f"{figure['p50_ms']:.1f}",
        f"{figure['p99_ms']:.1f}",
        f"{figure['peak_gb']:.2f}",
        f"{figure['peak_over_held']:.1f}",
        verdict(figure["peak_over_held"], limit),
        UNKNOWN if peak is None else f"{peak:.2f}",
        "" if over_held is None else f"{over_held:.1f}",
        verdict(over_held, limit),
    )


def _with_live_model(figure: dict[str, Any]) -> tuple[float | None, float | None]:
    """The peak with a live model in GB, and, without what was held before, over what is held of necessity.

    What interactions and factors take follows from the peak of training and its ratio.
    """
    peak = figure.get("peak_gb_with_live_model", figure.get("peak_gb_with_session"))
    if peak is None:
        return None, None
    before, trained = figure["base_gb"], figure["peak_gb"]
    return peak, figure["peak_over_held"] * (peak - before) / (trained - before)


def growth_apart(figures: list[dict[str, Any]]) -> dict[str, Any]:
    """How p50 grows from one of the compared sizes to the other, each measured in a process of its own."""
    by_size = {each["size"]: each for each in figures}
    small, large = (by_size.get(size, {}) for size in of_scaling.GROWTH)
    if "p50_ms" not in small or "p50_ms" not in large:
        return {"failed": "a size is missing"}
    found = [small, large]
    return {
        "p50_ms": [each["p50_ms"] for each in found],
        "audience": [each["audience"] for each in found],
        "growth": large["p50_ms"] / small["p50_ms"],
    }


def _growth(result: dict[str, Any]) -> str:
    """How p50 grows, told both ways."""
    limit = result["limits"]["p50_growth_to_30"]
    ways = {
        "requests to both sizes in turn, in one process": result["growth"],
        "each size in a process of its own": growth_apart(result["figures"]),
    }
    rows = [
        (way, "", "", "**failed**", "")
        if "failed" in found
        else (
            way,
            " to ".join(f"{each:.1f}" for each in found["p50_ms"]),
            " and ".join(f"{each:,.0f}" for each in found["audience"]),
            f"{found['growth']:.2f}",
            verdict(found["growth"], limit),
        )
        for way, found in ways.items()
    ]
    columns = ("measured", "p50, ms", "audience of a request's items", "times", f"at most {limit:g}")
    return table(columns, rows)


def huge(result: dict[str, Any]) -> list[str]:
    limits, figures = result["limits"], result["figures"]
    rows = [
        (
            f"{each['millions']:g} M",
            *(f"{each[key]:,.0f}" for key in ("interactions", "users", "items", "audience")),
            *(f"{seconds:,.0f}" for seconds in each["seconds"].values()),
            f"{each['p50_ms']:.1f}",
            f"{each['p99_ms']:.1f}",
            f"{each['peak_gb']:.2f}",
            verdict(each["peak_gb"], limits["peak_gb"]),
        )
        for each in figures
    ]
    columns = (
        *("data", "interactions", "users", "items", "audience"),
        *(f"{name}, s" for name in figures[0]["seconds"]),
        *("account, p50 ms", "p99 ms", "peak memory, GB", f"at most {limits['peak_gb']:g}"),
    )
    found = Verdict.by_limit(
        "p50 of an account at the largest size over that at the smallest",
        result["p50_growth"],
        limits["p50_growth"],
    )
    how = (
        f"Whole accounts, forgotten one after another by a live model, d = {of_huge.DIM}; each size in a process of "
        "its own, whose peak memory is that of all it did, generating the data included. The original is trained by "
        f"{of_huge.PASSES} plain passes, far from its optimum, and its live model has no limit of drift: nothing here "
        "tells what clean-ups take. The accounts are chosen to be alike at every size, not drawn: of "
        f"{of_scaling.HISTORY[0]} to {of_scaling.HISTORY[1]} interactions, whose items have together about the same "
        "audience."
    )
    return [
        "## Hundreds of millions of interactions",
        how,
        table(columns, rows),
        verdicts("", [found]).markdown(),
    ]


def scaling_plot(figures: list[dict[str, Any]]) -> str:
    grown = [each for each in figures if "failed" not in each and each["size"].isdigit()]
    real = [each for each in figures if "failed" not in each and not each["size"].isdigit()]

    def line(key: str) -> dict[str, tuple[list[float], list[float]]]:
        return {
            name: ([each["interactions"] for each in group], [each[key] for each in group])
            for name, group in (("generated", grown), ("amazon-book-kgat", real))
            if group
        }

    across = "interactions"
    rows = {
        "seconds per pass": {across: line("seconds_per_pass")},
        "request, p50 ms": {across: line("p50_ms")},
        "request, p99 ms": {across: line("p99_ms")},
        "peak memory, GB": {across: line("peak_gb")},
    }
    return panels(
        "Time and memory with the size of the data",
        rows,
        log_x=(across,),
        log_y=("seconds per pass", "peak memory, GB"),
        from_zero=("request, p50 ms", "request, p99 ms"),
    )
