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
from studies.default_cases import ORIGINALS

FOLDER = "defaults"
N_POINTS = 30
WANTED, MOST, LEAST, OF_TUNED = 0.95, 0.9, 0.85, 0.99
LEAD = f"""`alteraser train` chooses w0 and l2 from the data ([how](tuning.md)). This page says how good that choice
is, on data it was not made for: NDCG@10 (64 dimensions, at most 10,000 users) as a share of what the best of {N_POINTS}
settings reaches, w0 from 0.001 to 0.3 and l2 from 0.001 to 0.1. Of each user's items 80 % are trained on, 10 % choose
the best setting of the grid, 10 % judge. The rule that the choice starts from has two constants; for each data set they
come from the grids of the other originals, so that it has seen neither that set nor its parts. How far and in which
steps the choice looks around the rule was decided with these data sets in view. Made by
`make results-page` from [results/defaults](results/defaults), which `python -m studies defaults` wrote.
"""


@dataclass(frozen=True)
class Standing:
    """Of one case, the figures on the test part, means over the splits that have them; None where none has."""

    case: str
    origin: str
    data: Mapping[str, Any]
    n_splits: int
    best_of_grid: float
    figures: Mapping[str, float | None]

    @classmethod
    def of(cls, result: Result) -> Standing | None:
        """None where no split has both the whole grid and the default."""
        by_split = _by_split(result["records"])
        whole = {
            seed: split
            for seed, split in by_split.items()
            if len(split.get("grid", [])) == N_POINTS and "default" in split
        }
        if not whole:
            return None
        figures = {
            name: _mean(_judged(split[name]) for split in whole.values() if name in split)
            for name in ("default", "rule", "popular", "implicit", "tune")
        }
        figures["implicit-grid"] = _mean(
            _judged(split["implicit-grid"])
            for split in whole.values()
            if len(split.get("implicit-grid", [])) == N_POINTS
        )
        best = mean(_judged(split["grid"]) for split in whole.values())
        return cls(result["case"], result["origin"], result["data"], len(whole), best, figures)

    def share(self, name: str) -> float | None:
        """A figure as a share of the grid's best."""
        figure = self.figures[name]
        return None if figure is None else figure / self.best_of_grid


def add_page(path: Path, folder: Path) -> int:
    """Writes the page with its plot; returns how many results there are."""
    results = dict(Store(folder).all())
    found = {name: Standing.of(result) for name, result in results.items()}
    standings = [each for each in found.values() if each is not None]
    page = Page(path)
    records = [record for result in results.values() for record in result["records"]]
    page.add(
        "# Default settings", LEAD, measured_at(records) if records else "Nothing of it was measured yet."
    )
    originals = [found[name] for name in ORIGINALS if found.get(name) is not None]
    if originals:
        _add_figures(page, folder, [each for each in originals if each], standings)
    page.write()
    return len(results)


def _add_figures(
    page: Page, folder: Path, originals: Sequence[Standing], standings: Sequence[Standing]
) -> None:
    parts = [each for each in standings if each.case not in ORIGINALS]
    page.add(verdicts("", _verdicts(originals, parts)).markdown())
    shares = {each.case: each.share("default") or 0.0 for each in [*originals, *parts]}
    page.plot(
        folder / "shares.svg",
        plots.bars("NDCG@10 of the defaults over the best of the grid", shares),
        "NDCG@10 of the default settings as a share of the best of the grid, by data set",
    )
    page.add("## The data sets", _table(originals))
    if parts:
        page.add(
            "## Parts of them, and generated data",
            "A quarter of the users, of the items or of each user's interactions.",
            _table(parts),
        )


def _verdicts(originals: Sequence[Standing], parts: Sequence[Standing]) -> Iterable[Verdict]:
    shares = [each.share("default") or 0.0 for each in originals]
    yield Verdict(
        f"defaults over the best of the grid, on each of {len(ORIGINALS)} data sets",
        f"at least {WANTED}",
        f"worst {min(shares):.3f}, median {median(shares):.3f} ({len(shares)} measured)",
        min(shares) >= WANTED and len(shares) == len(ORIGINALS),
    )
    if parts:
        of_parts = [each.share("default") or 0.0 for each in parts]
        good = mean(share >= WANTED for share in of_parts)
        yield Verdict(
            "the same on parts of them and generated data",
            f"at least {WANTED} on {MOST:.0%}, never below {LEAST}",
            f"on {good:.0%}; worst {min(of_parts):.3f} ({len(of_parts)} measured)",
            good >= MOST and min(of_parts) >= LEAST,
        )
    for name, limit, text in (
        ("implicit", 1.0, "defaults over implicit's defaults"),
        ("implicit-grid", OF_TUNED, "best of our grid over the best of implicit's"),
    ):
        ratios = [
            (each.figures["default"] or 0.0 if name == "implicit" else each.best_of_grid) / rival
            for each in originals
            if (rival := each.figures[name])
        ]
        if ratios:
            reached = min(ratios) > limit if name == "implicit" else min(ratios) >= limit
            wanted = f"above {limit:g}" if name == "implicit" else f"at least {limit:g}"
            yield Verdict(
                f"{text}, on each",
                wanted,
                f"worst {min(ratios):.3f}, median {median(ratios):.3f} ({len(ratios)} measured)",
                reached and len(ratios) == len(ORIGINALS),
            )
    tuned = [share for each in originals if (share := each.share("tune")) is not None]
    if tuned:
        yield Verdict(
            "`alteraser tune` with 20 trials over the best of the grid, on each",
            f"at least {OF_TUNED}",
            f"worst {min(tuned):.3f}, median {median(tuned):.3f} ({len(tuned)} measured)",
            min(tuned) >= OF_TUNED and len(tuned) == len(ORIGINALS),
        )


def _table(standings: Sequence[Standing]) -> str:
    columns = (
        "Data",
        "Users",
        "Items",
        "Density",
        "Splits",
        "Best of grid",
        "Defaults",
        "Share",
        f"≥ {WANTED}",
        "Rule alone",
        "Tuned",
        "implicit's defaults",
        "implicit, best of grid",
        "Most popular",
    )
    rows = []
    for each in standings:
        share = each.share("default") or 0.0
        figures = (each.figures[name] for name in ("rule", "tune", "implicit", "implicit-grid", "popular"))
        rows.append(
            (
                each.case,
                f"{each.data['users']:,}",
                f"{each.data['items']:,}",
                f"{each.data['density']:.3%}",
                str(each.n_splits),
                _cell(each.best_of_grid),
                _cell(each.figures["default"]),
                f"{share:.3f}",
                said(share >= WANTED),
                *map(_cell, figures),
            )
        )
    return table(columns, rows)


def _by_split(records: Iterable[Result]) -> dict[int, dict[str, list[Result]]]:
    found: dict[int, dict[str, list[Result]]] = {}
    for record in records:
        found.setdefault(record["seed"], {}).setdefault(record["what"], []).append(record)
    return found


def _judged(records: Sequence[Result]) -> float:
    """The test figure of what is best on the validation part."""
    return float(max(records, key=lambda each: float(each["validation"]))["test"])


def _mean(values: Iterable[float]) -> float | None:
    values = list(values)
    return mean(values) if values else None


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
