"""docs/benchmarks.md from the result files; figures are never typed."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import page_live, page_requests, page_scaling
from benchmarks.passes import WHOLE
from evidence.page import UNKNOWN, Page, Verdict, measured_at, table, verdict, verdicts
from evidence.store import Store

RESULTS = Path(__file__).parent / "results"
INTRODUCTION = (
    "Made from `benchmarks/results/` by `make bench-page`; measured by `make bench` (one of them: `python -m "
    "benchmarks NAME`). Speeds are ratios of things measured in turn in one run, medians over the rounds; a single "
    "number of seconds says more about the machine than about the software."
)
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
PLOT = Path("images") / "scaling.svg"


def write(store: Store, path: Path = PAGE) -> None:
    """Writes the page, made of what `python -m benchmarks` measured last."""
    page = Page(path)
    page.add("# Benchmarks", INTRODUCTION)
    for name, section in SECTIONS.items():
        if store.has(name):
            result = store.read(name)
            title, *rest = section(result)
            page.add(title, measured_at([result]), *rest)
            if "before" in result:
                page.add(*earlier(result["before"]))
            if name == "scaling":
                page.plot(path.parent / PLOT, page_scaling.scaling_plot(result["figures"]), "Scaling")
    page.write()


def earlier(before: dict[str, Any]) -> list[str]:
    """What an earlier protocol gave, where it was changed after a miss."""
    at = (
        f"commit `{before['commit']}`"
        if "commit" in before
        else f"a commit that was not recorded (stored at `{before['stored_at']}`)"
    )
    how = (
        f"How this is measured was changed after a miss. Before, at {at}, {before['how']}; the "
        f"software has changed since, too. It gave:"
    )
    found = [
        Verdict.by_limit(each["what"], each["value"], each["limit"], form=",.4g", at_least=each["at_least"])
        for each in before["figures"]
    ]
    return [how, verdicts("", found).markdown()]


def _passes(result: dict[str, Any]) -> list[str]:
    kinds = {"exact": "exact, against Cholesky", "cg": "conjugate gradients, against 3 steps of them"}
    rows = [
        (
            kinds[each["kind"]],
            str(each["dim"]),
            f"{statistics.median(each['seconds']['alteraser']):.3f}",
            f"{statistics.median(each['seconds']['implicit']):.3f}",
            f"{each['ratio']:.2f}",
            f"{each['limit']:.2f}",
            verdict(each["ratio"], each["limit"]),
            f"{each['loss']['alteraser'][-1]:.1f}",
            f"{each['loss']['implicit'][-1]:.1f}",
            *_rate(each),
        )
        for each in result["figures"]
    ]
    rate_limits = {f"{each['rate_limit']:.0%}" for each in result["figures"] if "rate" in each}
    columns = (
        "pass",
        "d",
        "alteraser, s",
        "implicit, s",
        "ratio",
        "wanted at most",
        "reached",
        "our loss, 5 passes",
        "implicit's loss",
        "rate of a matrix product",
        "as if matrices were whole",
        f"at least {' or '.join(sorted(rate_limits))}",
    )
    how = (
        f"Against one iteration of implicit on the same matrix and objective (w0 = 1/alpha, l2 = "
        f"regularization/alpha, plain L2), from the same factors, {result['threads']} threads each. Both losses are "
        f"computed by the same function after five passes; a pass of conjugate gradients is timed from the model after "
        f"the first pass, where it has most to do. The rate counts the operations that are done against those of a "
        f"product of two matrices of 3,000 × 3,000 numbers in single precision on the same threads in the same run. "
        f"The matrices of rows are symmetric, and no more than the tiles that touch one half of them is computed; "
        f"counted as if they were whole, with 2·nnz·d² operations per side + rows·d³/3, the rate can exceed a "
        f"product's, which says what symmetry saves, not how fast the arithmetic is."
    )
    return ["## One pass over all rows of ml-1m", how, table(columns, rows)]


def _rate(figure: dict[str, Any]) -> tuple[str, str, str]:
    """The rate by the operations done, the same as if matrices were whole, and the verdict on the first."""
    if "rate" not in figure:
        return "", "", ""
    work = figure["operations"]
    if WHOLE not in work:  # measured when only whole matrices were counted
        return UNKNOWN, f"{figure['rate']:.0%}", UNKNOWN
    whole = figure["rate"] * work[WHOLE] / work["pass"]
    return (
        f"{figure['rate']:.0%}",
        f"{whole:.0%}",
        verdict(figure["rate"], figure["rate_limit"], at_least=True),
    )


def _footprint(result: dict[str, Any]) -> list[str]:
    names = {
        "help_seconds": "`alteraser --help`, seconds",
        "demo_seconds": "`alteraser demo`, seconds",
        "als_ml_1m_peak_gb": "`alteraser train ml-1m --trainer als --max-passes 20`, peak memory of the process in GB",
    }
    limits = result["limits"]
    reached = [Verdict.by_limit(text, result[key], limits[key]) for key, text in names.items()]
    return ["## The command as a whole", verdicts("", reached).markdown()]


def _startup(result: dict[str, Any]) -> list[str]:
    names = {
        "recommend": "`alteraser recommend MODEL ml-1m --user ID`",
        "recommend, seen items included": "`alteraser recommend MODEL --user ID --include-seen`",
        "forget": "`alteraser forget MODEL ml-1m --user ID`",
        "help": "`alteraser --help`",
    }
    medians, limits = result["median_seconds"], result["limits"]
    rows = [
        (
            text,
            f"{medians[name]:.2f}",
            f"{limits[name]:g}",
            verdict(medians[name], limits[name]),
            f"{result['ratios'][name]:.1f}",
        )
        for name, text in names.items()
    ]
    columns = (
        "command",
        "seconds",
        "wanted at most",
        "reached",
        "times a Python that imports numpy and polars",
    )
    how = (
        f"From the shell, the whole process, on ml-1m with the default model: kernels compiled (`alteraser warm-up`) "
        f"and files read before. Medians of {result['rounds']} rounds, each of all commands in turn with a Python "
        f"process that imports numpy and polars and ends, which took {medians['python']:.2f} s."
    )
    return ["## Before the work begins", how, table(columns, rows)]


SECTIONS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "passes": _passes,
    "requests": page_requests.requests,
    "batches": page_requests.batches,
    "unlearning": page_requests.unlearning,
    "sequence": page_live.sequence,
    "scaling": page_scaling.scaling,
    "footprint": _footprint,
    "startup": _startup,
    "learning": page_live.learning,
    "partial-fit": page_requests.partial_fit,
    "mixed": page_live.mixed,
    "huge": page_scaling.huge,
}
