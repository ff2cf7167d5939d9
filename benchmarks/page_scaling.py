"""The section on size, as docs/benchmarks.md shows it."""

from __future__ import annotations

from typing import Any

from alteraser.report.plots import panels
from evidence.page import table, verdict


def scaling(result: dict[str, Any]) -> list[str]:
    limits = result["limits"]
    rows = [
        (each["size"] + (" M" if each["size"].isdigit() else ""), "**failed**", *[""] * 8)
        if "failed" in each
        else (
            each["size"] + (" M" if each["size"].isdigit() else ""),
            f"{each['interactions']:,}",
            f"{each['users']:,}",
            f"{each['items']:,}",
            f"{each['seconds_per_pass']:.2f}",
            f"{each['p50_ms']:.1f}",
            f"{each['p99_ms']:.1f}",
            f"{each['peak_gb']:.2f}",
            f"{each['peak_over_held']:.1f}",
            verdict(each["peak_over_held"], limits["memory"]),
        )
        for each in result["figures"]
    ]
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
        f"at most {limits['memory']:g}",
    )
    growth = result["growth"]
    told = (
        "**failed**"
        if "failed" in growth
        else (
            f"{growth['growth']:.2f} times, {growth['p50_ms'][0]:.1f} to {growth['p50_ms'][1]:.1f} ms, at audiences of "
            f"{growth['audience'][0]:,.0f} and {growth['audience'][1]:,.0f}; wanted is at most "
            f"{limits['p50_growth_to_30']:g} times, reached: {verdict(growth['growth'], limits['p50_growth_to_30'])}"
        )
    )
    how = (
        f"Generated data (power laws, planted tastes, the same mean history) and amazon-book-kgat, d = 64; each in a "
        f"process of its own. Requests are of users with 40 to 80 interactions whose items have together about the "
        f"same audience. From 1 to 30 million interactions, with requests to both in turn, p50 grows {told}. Memory is "
        f"the peak of the process while both indexes are built and the model is trained, and, beside it, without what "
        f"the process held before the data, over what the interactions and the factors take."
    )
    return ["## How it scales", how, table(columns, rows)]


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
