"""The section on size, as docs/benchmarks.md shows it."""

from __future__ import annotations

from typing import Any

from alteraser.report.plots import panels
from benchmarks.scaling import growth_apart
from evidence.page import Verdict, table, verdict, verdicts, within


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
    how = (
        "Generated data (power laws, planted tastes, the same mean history) and amazon-book-kgat, d = 64; each in a "
        "process of its own. Requests are of users with 40 to 80 interactions whose items have together about the "
        "same audience. Memory is the peak of the process while both indexes are built and the model is trained, and, "
        "beside it, without what the process held before the data, over what the interactions and the factors take."
    )
    held = [
        within(each["peak_over_held"], limits["memory"]) for each in result["figures"] if "failed" not in each
    ]
    told = (
        f"Memory is within {limits['memory']:g} times what interactions and factors take at {sum(held)} of "
        f"{len(result['figures'])} sizes. From 1 to 30 million interactions p50 grows:"
    )
    return ["## How it scales", how, table(columns, rows), told, _growth(result)]


def _growth(result: dict[str, Any]) -> str:
    """How p50 grows, told both ways."""
    limit = result["limits"]["p50_growth_to_30"]
    ways = {
        "requests to both sizes in turn, in one process": result["growth"],
        "each size in a process of its own": result.get("growth_apart") or growth_apart(result["figures"]),
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
        "Whole accounts of users with 40 to 80 interactions whose items have together about the same audience, "
        "forgotten one after another by a live model, d = 64; each size in a process of its own, whose peak memory is "
        "that of all it did, generating the data included."
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
