"""docs/benchmarks.md from the result files; figures are never typed."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from alteraser.report.tables import Table

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def write(path: Path = PAGE) -> None:
    """The page, made of what `python -m benchmarks` measured last."""
    found = {file.stem: json.loads(file.read_text()) for file in sorted(RESULTS.glob("*.json"))}
    intro = (
        "Made from `benchmarks/results/` by `make bench-page`; measured by `make bench`. Speeds are ratios of things "
        "measured in turn in one run, medians over the rounds; a single number of seconds says more about the machine "
        "than about the software.\n"
    )
    parts = ["# Benchmarks\n", intro]
    if "exact_pass" in found:
        parts += _exact_pass(found["exact_pass"])
    if "footprint" in found:
        parts += _footprint(found["footprint"])
    path.write_text("\n".join(parts), encoding="utf-8")


def _exact_pass(result: dict[str, Any]) -> list[str]:
    rows = tuple(
        (
            str(each["dim"]),
            f"{statistics.median(each['seconds']['alteraser']):.3f}",
            f"{statistics.median(each['seconds']['implicit']):.3f}",
            f"{each['ratio']:.2f}",
            "" if each["limit"] is None else f"{each['limit']:.2f}",
            f"{each['loss']['alteraser'][-1]:.1f}",
            f"{each['loss']['implicit'][-1]:.1f}",
        )
        for each in result["figures"]
    )
    columns = (
        "d",
        "alteraser, s",
        "implicit, s",
        "ratio",
        "wanted at most",
        "our loss, 5 passes",
        "implicit's loss",
    )
    how = (
        f"Against one Cholesky iteration of implicit on the same matrix and objective (w0 = 1/alpha, l2 = "
        f"regularization/alpha, plain L2), from the same factors, {result['threads']} threads each. Both losses are "
        f"computed by the same function after five passes.\n"
    )
    return ["## One exact pass over all rows of ml-1m\n", how, Table("", columns, rows).markdown()]


def _footprint(result: dict[str, Any]) -> list[str]:
    names = {
        "help_seconds": "`alteraser --help`, seconds",
        "demo_seconds": "`alteraser demo`, seconds",
        "als_ml_1m_peak_gb": "`alteraser train ml-1m --trainer als --max-passes 20`, peak memory of the process in GB",
    }
    rows = tuple((text, f"{result[key]:.2f}", f"{result['limits'][key]:g}") for key, text in names.items())
    return ["## The command as a whole\n", Table("", ("", "measured", "wanted below"), rows).markdown()]
