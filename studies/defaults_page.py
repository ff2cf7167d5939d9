"""docs/defaults.md: how good the default settings are, from the files of `python -m studies defaults`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

from alteraser.report import plots
from evidence.page import Page, Verdict, measured_at, said, table, verdicts
from evidence.store import Result, Store
from studies.defaults_data import ORIGINALS

FOLDER = "defaults"
N_POINTS = 30
# Goals: shares of the best of a grid, for the defaults and for a search.
MIN_SHARE, MIN_SHARE_TUNED = 0.95, 0.99
# The defaults reach their share on this fraction of the derived data sets, and the floor on all of them.
MIN_FRACTION_DERIVED, FLOOR_DERIVED = 0.9, 0.85
BUDGETS = (0.1, 0.3, 1.0)  # of the seconds that our training takes to converge
LEAD = f"""`alteraser train` chooses w0 and l2 from the data ([how](tuning.md)). This page says how good that choice
is, on data it was not made for: NDCG@10 (64 dimensions, at most 10,000 users) as a share of what the best of {N_POINTS}
settings reaches, w0 from 0.001 to 0.3 and l2 from 0.001 to 0.1. Of each user's items 80 % are trained on, 10 % choose
the best setting of the grid, 10 % judge. The rule that the choice starts from has two constants; for each data set they
come from the grids of the other originals, so that it has seen neither that set nor its parts. How far and in which
steps the choice looks around the rule, how many passes a candidate makes and by how much it must win were decided with
these data sets and their parts in view, after earlier forms had failed on some of them: only other data can tell how
well that carries over. Made by `make results-page` from [results/defaults](results/defaults), which
`python -m studies defaults` wrote.
"""


@dataclass(frozen=True)
class CaseScores:
    """Of one case, what was reached on the test part of each split: `best` by the grid, the others by their names."""

    case: str
    origin: str
    data: Mapping[str, Any]
    by_split: Mapping[int, Mapping[str, float]]
    curve: Result | None

    @classmethod
    def of(cls, result: Result) -> CaseScores | None:
        """None where no split has both the whole grid and the default."""
        by_split = {seed: _test_ndcg(split) for seed, split in _by_split(result["records"]).items()}
        whole = {seed: each for seed, each in by_split.items() if "best" in each and "default" in each}
        if not whole:
            return None
        curve = next((each for each in result["records"] if each["what"] == "curve"), None)
        return cls(result["case"], result["origin"], result["data"], whole, curve)

    def mean(self, name: str) -> float | None:
        """The mean over the splits that have it."""
        found = [split[name] for split in self.by_split.values() if name in split]
        return mean(found) if found else None

    def ratio(self, name: str, other: str = "best") -> float | None:
        """The mean of one over that of the other, over the splits that have both."""
        both = [
            (split[name], split[other]) for split in self.by_split.values() if {name, other} <= split.keys()
        ]
        return sum(one for one, _ in both) / sum(two for _, two in both) if both else None


def add_page(path: Path, folder: Path) -> int:
    """Writes the page with its plot; returns how many results there are."""
    results = dict(Store(folder).all())
    found = {name: CaseScores.of(result) for name, result in results.items()}
    cases = [each for each in found.values() if each is not None]
    page = Page(path)
    records = [record for result in results.values() for record in result["records"]]
    page.add(
        "# Default settings", LEAD, measured_at(records) if records else "Nothing of it was measured yet."
    )
    originals = [found[name] for name in ORIGINALS if found.get(name) is not None]
    if originals:
        _add_figures(page, folder, [each for each in originals if each], cases)
    page.write()
    return len(results)


def _add_figures(
    page: Page, folder: Path, originals: Sequence[CaseScores], cases: Sequence[CaseScores]
) -> None:
    derived = [each for each in cases if each.case not in ORIGINALS]
    page.add(verdicts("", _verdicts(originals, derived)).markdown())
    shares = {each.case: each.ratio("default") or 0.0 for each in [*originals, *derived]}
    page.plot(
        folder / "shares.svg",
        plots.bars("NDCG@10 of the defaults over the best of the grid", shares),
        "NDCG@10 of the default settings as a share of the best of the grid, by data set",
    )
    page.add("## The data sets", _table(originals))
    _add_curves(page, folder, [each for each in originals if each.curve])
    if derived:
        page.add(
            "## Parts of them, and generated data",
            "A quarter of the users, of the items or of each user's interactions.",
            _table(derived),
        )


def _add_curves(page: Page, folder: Path, cases: Sequence[CaseScores]) -> None:
    if not cases:
        return
    curves = {each.case: each.curve for each in cases if each.curve}
    drawn = {
        case: {
            name: ([point["seconds"] for point in points], [point["test"] for point in points])
            for name, points in (("alteraser", curve["ours"]), ("implicit", curve["implicit"]))
        }
        for case, curve in curves.items()
    }
    page.add(
        "## Against training seconds",
        "Both with the best settings of their grids, trained for 1, 2, 4 … passes in turn on the same two threads; "
        "seconds are medians of three rounds.",
    )
    page.plot(
        folder / "curves.svg",
        plots.small_multiples("NDCG@10 against training seconds", drawn, x="seconds", y="NDCG@10"),
        "NDCG@10 against training seconds, ours and implicit's, by data set",
    )
    columns = ("Data", "Choosing, s", "Training, s", "Choosing over training", *(_after(n) for n in BUDGETS))
    rows = [
        (
            case,
            f"{curve['seconds_choosing']:.2f}",
            f"{curve['seconds_training']:.2f}",
            f"{curve['seconds_choosing'] / curve['seconds_training']:.2f}",
            *(_versus(curve, share) for share in BUDGETS),
        )
        for case, curve in curves.items()
    ]
    page.add(
        "What choosing settings costs beside training with them; and the NDCG@10 that ours and implicit's have reached "
        "within a share of the seconds that ours takes to converge.",
        table(columns, rows),
    )


def _after(share: float) -> str:
    return f"After {share:.0%}: ours, implicit's"


def _versus(curve: Result, share: float) -> str:
    end = share * curve["ours"][-1]["seconds"]
    return ", ".join(_cell(_reached_within(curve[name], end)) or "–" for name in ("ours", "implicit"))


def _reached_within(points: Sequence[Result], seconds: float) -> float | None:
    """The NDCG@10 of the longest training that is over by then."""
    return max(
        (point for point in points if point["seconds"] <= seconds),
        key=lambda point: point["seconds"],
        default={},
    ).get("test")


def _verdicts(originals: Sequence[CaseScores], derived: Sequence[CaseScores]) -> Iterable[Verdict]:
    def on_each(
        text: str, limit: float, ratios: Iterable[float | None], *, above: bool = False
    ) -> Iterable[Verdict]:
        found = [ratio for ratio in ratios if ratio is not None]
        if found:
            reached = min(found) > limit if above else min(found) >= limit
            yield Verdict(
                f"{text}, on each of {len(ORIGINALS)} data sets",
                f"{'above' if above else 'at least'} {limit:g}",
                f"worst {min(found):.3f}, median {median(found):.3f} ({len(found)} measured)",
                reached and len(found) == len(ORIGINALS),
            )

    yield from on_each(
        "defaults over the best of the grid", MIN_SHARE, [each.ratio("default") for each in originals]
    )
    if derived:
        shares = [each.ratio("default") or 0.0 for each in derived]
        good = mean(share >= MIN_SHARE for share in shares)
        yield Verdict(
            "the same on parts of them and generated data",
            f"at least {MIN_SHARE} on {MIN_FRACTION_DERIVED:.0%}, never below {FLOOR_DERIVED}",
            f"on {good:.0%}; worst {min(shares):.3f} ({len(shares)} measured)",
            good >= MIN_FRACTION_DERIVED and min(shares) >= FLOOR_DERIVED,
        )
    yield from on_each(
        "defaults over implicit's defaults",
        1.0,
        [each.ratio("default", "implicit") for each in originals],
        above=True,
    )
    yield from on_each(
        "best of our grid over the best of implicit's",
        MIN_SHARE_TUNED,
        [each.ratio("best", "implicit-grid") for each in originals],
    )
    yield from on_each(
        "both tuned, ours by `alteraser tune` with 20 trials, implicit's by its grid of 30",
        MIN_SHARE_TUNED,
        [each.ratio("tune", "implicit-grid") for each in originals],
    )
    yield from on_each(
        "`alteraser tune` with 20 trials over the best of the grid",
        MIN_SHARE_TUNED,
        [each.ratio("tune") for each in originals],
    )


def _table(cases: Sequence[CaseScores]) -> str:
    columns = (
        "Data",
        "Users",
        "Items",
        "Density",
        "Splits",
        "Best of grid",
        "Defaults",
        "Share",
        f"≥ {MIN_SHARE}",
        "Rule alone",
        "Tuned",
        "implicit's defaults",
        "implicit, best of grid",
        "Most popular",
    )
    rows = []
    for each in cases:
        share = each.ratio("default") or 0.0
        figures = (each.mean(name) for name in ("rule", "tune", "implicit", "implicit-grid", "popular"))
        rows.append(
            (
                each.case,
                f"{each.data['users']:,}",
                f"{each.data['items']:,}",
                f"{each.data['density']:.3%}",
                str(len(each.by_split)),
                _cell(each.mean("best")),
                _cell(each.mean("default")),
                f"{share:.3f}",
                said(share >= MIN_SHARE),
                *map(_cell, figures),
            )
        )
    return table(columns, rows)


def _by_split(records: Iterable[Result]) -> dict[int, dict[str, list[Result]]]:
    found: dict[int, dict[str, list[Result]]] = {}
    for record in records:
        found.setdefault(record["seed"], {}).setdefault(record["what"], []).append(record)
    return found


def _test_ndcg(split: Mapping[str, Sequence[Result]]) -> dict[str, float]:
    """By name, the test figure of what is best on the validation part; a grid counts where it is whole."""
    found = {}
    for what, records in split.items():
        if what == "curve" or (what in ("grid", "implicit-grid") and len(records) < N_POINTS):
            continue
        best = max(records, key=lambda each: float(each["validation"]))
        found["best" if what == "grid" else what] = float(best["test"])
    return found


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
