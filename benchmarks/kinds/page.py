"""The page of the kinds of requests: docs/kinds.md."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from benchmarks.kinds.originals import DATASETS, FURTHER, OPTIMUM, ORIGINALS
from benchmarks.kinds.requests import ACCOUNT, BLOCKBUSTER, HALF, ITEM, KINDS, LARGE, PAIR, PERIOD
from evidence.page import UNKNOWN, Page, Verdict, measured_at, table, verdicts, within
from evidence.store import Result, Store

RESULTS = Path(__file__).parents[1] / "results" / "kinds"
PAGE = Path(__file__).parents[2] / "docs" / "kinds.md"
SMALL, LARGER, GROWTH = "ml-1m", ("amazon-book-kgat", "generated 10 M"), 2.0
LEFT_OF_WHOLE, LEFT_OF_REST, RBO_CONCERNED, MISS_OF_OTHERS = 0.03, 0.25, 0.98, 0.02
INTRODUCTION = """# Every kind of request

How long a live model takes for each kind of request, and how near it comes to where it should be, from originals
trained in four ways: to the optimum of their loss, as `alteraser train` leaves them, by AdamW with early stopping, and
by three passes. Settings are those that `alteraser train` chooses, with 64 dimensions. Made by
`python -m benchmarks kinds` from [benchmarks/results/kinds](../benchmarks/results/kinds).

- T is one exact pass over all rows, on the same threads in the same run. Every request starts from the original.
- *Whole*: of the gap that a request opens, L(remaining, original) − L(remaining, reference), what is left of it.
  *Rest*: the same of the gap that is there once rows without interactions are zero. Only originals at their optimum
  have one.
- The reference of an original at its optimum is the optimum on what remains, in double precision. That of any other is
  where the gradient on what remains is what the original's was on all of the data.
- *Concerned*: RBO@10 with the reference over those who lose interactions and keep some. *Others*: 1 − RBO@10 of the 50
  others whose scores change most, and in brackets that of the original with its emptied rows at zero.
- *Drift*: the smallest estimate of the gap over the true gap; 1 or more is safe.
- *Residual*: the largest share that is left of the residual which the request has changed, where the reference ends.
  Far from an optimum, where the loss is not convex, there may be none next to the original; lists then tell little.
- Times are of up to 100 requests of a kind, references of up to 10 others that are drawn alike.

"""
TUNED_ON = f"""The margin of the drift, and when half steps end, were set with a look at ml-1m, amazon-14core,
kuairec-binary and amazon-book-kgat: of these the figures are not of unseen data. Those of {", ".join(FURTHER[:-1])} and
{FURTHER[-1]} are, as far as they are measured."""


def page(store: Store) -> Page:
    """The page of what is measured so far."""
    made = Page(PAGE)
    made.add(INTRODUCTION, TUNED_ON)
    records = {name: store.read(name)["cells"] for name in (*DATASETS, *FURTHER) if store.has(name)}
    made.add(measured_at([record for of_data in records.values() for record in of_data]))
    cells = {name: _cells(of_data) for name, of_data in records.items()}
    missing = [name for name in DATASETS if len(records.get(name, ())) < 3 * len(ORIGINALS) * len(KINDS)]
    if missing:
        made.add(f"Not measured yet, or in part: {', '.join(missing)}.")
    made.add(verdicts("", _verdicts(cells)).markdown())
    for name, of_data in cells.items():
        made.add(f"## {name}")
        for original in ORIGINALS:
            rows = [
                cell
                for kind in KINDS
                for cell in of_data
                if (cell["original"], cell["kind"]) == (original, kind)
            ]
            if rows:
                made.add(f"### From {_SAID[original]}", table(_COLUMNS, map(_row, rows)))
            if compared := [cell for cell in rows if "seconds" in cell]:
                made.add(_SCOPES, table(_SCOPE_COLUMNS, map(_scope_row, compared)))
    return made


def _cells(records: Iterable[Result]) -> list[Result]:
    """The cells, each with its times and references as far as they are measured."""
    found: dict[tuple[str, str], Result] = {}
    for record in records:
        cell = found.setdefault((record["original"], record["kind"]), {"passes": [], "references": []})
        cell.update(record)
    return list(found.values())


_SAID = dict(
    zip(
        ORIGINALS,
        ("the optimum", "what `train` leaves", "AdamW, stopped early", "three passes"),
        strict=True,
    )
)
_COLUMNS = (
    "Request",
    "p50, T",
    "p99, T",
    "worst, T",
    "p50, ms",
    "Whole left: mean, worst",
    "Rest left: mean, worst",
    "Concerned: mean, worst",
    "Others: mean (zeroed)",
    "Drift, least",
    "Residual, most",
)


def _row(cell: Result) -> tuple[str, ...]:
    passes = cell["passes"]
    times = ("–",) * 4
    if passes:
        times = (
            f"{statistics.median(passes):.3f}",
            f"{np.percentile(passes, 99):.2f}",
            f"{max(passes):.2f}",
            f"{statistics.median(passes) * cell['pass_ms']:.1f}",
        )
    others = "–"
    if cell["references"]:
        others = f"{1 - _mean(cell, 'rbo_others'):.4f} ({1 - _mean(cell, 'rbo_others_zeroed'):.4f})"
    return (
        cell["kind"],
        *times,
        _mean_and(max, cell, "left_of_whole"),
        _mean_and(max, cell, "left_of_rest"),
        _mean_and(min, cell, "rbo_concerned"),
        others,
        f"{min(_values(cell, 'drift_over_gap')):.2f}" if _values(cell, "drift_over_gap") else "–",
        f"{max(_values(cell, 'residual_left')):.4f}" if cell["references"] else "–",
    )


_SCOPES = """The default scope, auto, beside those it chooses from, both with the loosest tolerance at which they gain
what auto does, and beside retraining to the same loss; medians of five requests."""
_SCOPE_COLUMNS = (
    "Request",
    "auto, ms",
    "affected, ms",
    "all, ms",
    "auto over the cheaper: p50, worst",
    "retraining over auto",
)


def _scope_row(cell: Result) -> tuple[str, ...]:
    auto = cell["seconds"]["auto"]
    over = over_the_cheaper(cell)
    return (
        cell["kind"],
        *(
            f"{1e3 * statistics.median(found):.1f}" if found else "never"
            for found in ([each for each in by if each is not None] for by in cell["seconds"].values())
        ),
        f"{statistics.median(over):.2f}, {max(over):.2f}" if over else "–",
        f"{cell['retraining'] / statistics.median(auto):,.0f}",
    )


def over_the_cheaper(cell: Result) -> list[float]:
    """Of each request, the time of auto over that of the cheaper of the others, where any comes so far."""
    auto, *others = cell["seconds"].values()
    pairs = [
        (own, [each for each in rest if each is not None]) for own, *rest in zip(auto, *others, strict=True)
    ]
    return [own / min(found) for own, found in pairs if found]


def _values(cell: Result, figure: str) -> list[float]:
    return [each[figure] for each in cell["references"] if each.get(figure) is not None]


def _mean(cell: Result, figure: str) -> float:
    return statistics.mean(_values(cell, figure))


def _median(cell: Result, figure: str) -> float:
    return statistics.median(_values(cell, figure))


MIDDLES = (_mean, _median)
"""What is judged by, and what stands beside it."""


def _mean_and(worst: Callable[[Iterable[float]], float], cell: Result, figure: str) -> str:
    values = _values(cell, figure)
    return f"{statistics.mean(values):.4f}, {worst(values):.4f}" if values else "–"


def _verdicts(cells: dict[str, list[Result]]) -> Iterable[Verdict]:
    measured = [(name, cell) for name, of_data in cells.items() for cell in of_data]
    every = [(name, cell) for name, cell in measured if cell["references"]]
    optimum = [cell for _, cell in every if cell["original"] == OPTIMUM]
    for what, figure, limit in (
        ("left of the whole gap, mean of each cell", "left_of_whole", LEFT_OF_WHOLE),
        ("left of the rest, mean of each cell", "left_of_rest", LEFT_OF_REST),
    ):
        yield _worst(what, *([of(cell, figure) for cell in optimum] for of in MIDDLES), limit=limit)
    told = [cell for _, cell in every if _values(cell, "rbo_concerned")]
    concerned = ([of(cell, "rbo_concerned") for cell in told] for of in MIDDLES)
    what = "RBO@10 of those concerned, mean of each cell"
    yield _worst(what, *concerned, limit=RBO_CONCERNED, at_least=True)
    misses = ([1 - of(cell, "rbo_others") for _, cell in every] for of in MIDDLES)
    yield _worst("1 − RBO@10 of the 50 others, mean of each cell", *misses, limit=MISS_OF_OTHERS)
    shares = (
        [(1 - of(cell, "rbo_others")) / max(1 - of(cell, "rbo_others_zeroed"), 1e-9) for _, cell in every]
        for of in MIDDLES
    )
    yield _worst("the same over the zeroed original's", *shares, limit=1 / 3)
    drifts = [drift for cell in optimum for drift in _values(cell, "drift_over_gap")]
    if drifts:
        share = float(np.mean(np.array(drifts) >= 1))
        yield Verdict(
            "requests whose drift was not estimated too low", "at least 95%", f"{share:.0%}", share >= 0.95
        )
    scoped = [cell for _, cell in measured if "seconds" in cell]
    if scoped:
        overs = [over for cell in scoped if (over := over_the_cheaper(cell))]
        yield _worst(
            "auto over the cheaper scope, p50 of each cell",
            [statistics.median(over) for over in overs],
            limit=1.2,
        )
        yield _worst("the same, worst of each cell (in time)", [max(over) for over in overs], limit=2.0)
        slower = [max(cell["seconds"]["auto"]) / cell["retraining"] for cell in scoped]
        yield _worst("auto over retraining to the same loss, worst of each cell", slower, limit=1.0)
    for what, names, kinds, quantile, limit in _SPEEDS:
        found = [
            float(np.percentile(cell["passes"], quantile))
            for name, cell in measured
            if name in names and cell["kind"] in kinds and cell["passes"]
        ]
        yield _worst(f"{', '.join(names)}: {what}", found, limit=limit)
    small = {
        (cell["original"], cell["kind"]): cell for name, cell in measured if name == SMALL and cell["passes"]
    }
    ratios = [
        _median_ms(cell) / _median_ms(small[cell["original"], cell["kind"]])
        for name, cell in measured
        if name in LARGER and cell["passes"] and (cell["original"], cell["kind"]) in small
    ]
    yield _worst(f"{', '.join(LARGER)}: p50 in ms over that of {SMALL}", ratios, limit=GROWTH)


def _median_ms(cell: Result) -> float:
    median: float = statistics.median(cell["passes"]) * cell["pass_ms"]
    return median


_SINGLE = tuple(kind for kind in KINDS if kind not in LARGE)
_SPEEDS = (
    ("pair, period, half, account, p50 in T", ("ml-1m",), (PAIR, PERIOD, HALF, ACCOUNT), 50, 0.05),
    ("the same, p99", ("ml-1m",), (PAIR, PERIOD, HALF, ACCOUNT), 99, 0.3),
    ("item, p50", ("ml-1m",), (ITEM,), 50, 0.3),
    ("item, also a blockbuster, worst", ("ml-1m",), (ITEM, BLOCKBUSTER), 100, 4.0),
    ("64 accounts, p50", ("ml-1m",), LARGE[:1], 50, 2.0),
    ("1 %, p50", ("ml-1m",), LARGE[1:], 50, 8.0),
    ("single requests, p50", ("amazon-14core", "kuairec-binary"), _SINGLE, 50, 1.0),
    ("single requests, p99", ("amazon-14core", "kuairec-binary"), _SINGLE, 99, 2.0),
)


def _worst(
    what: str,
    values: list[float],
    medians: list[float] | None = None,
    *,
    limit: float,
    at_least: bool = False,
) -> Verdict:
    """The verdict on the worst of some cells, with how many of them reach the limit.

    Where the figures of cells are means, `medians` are beside them.
    """
    wanted = f"{'at least' if at_least else 'at most'} {limit:.3g}"
    if not values:
        return Verdict(what, wanted, UNKNOWN, reached=False)
    reached, by_medians = (
        [within(value, limit, at_least=at_least) for value in of] for of in (values, medians or [])
    )
    worst = (min if at_least else max)(values)
    measured = (
        f"{sum(reached)} of {len(values)} cells; median {statistics.median(values):.3g}, worst {worst:.3g}"
    )
    if medians is None:
        return Verdict(what, wanted, measured, all(reached))
    measured += f"; by medians {sum(by_medians)} cells"
    return Verdict(what, wanted, measured, all(reached), by_medians=all(by_medians))
