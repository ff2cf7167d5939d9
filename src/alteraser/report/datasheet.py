"""A data set in figures."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from alteraser.data.interactions import Interactions, Side
from alteraser.report.tables import Table


@dataclass(frozen=True)
class Datasheet:
    """How large the data is and how it is spread; no id."""

    users: int
    items: int
    events: int
    interactions: int
    density: float
    per_user: dict[str, float]
    per_item: dict[str, float]
    weights: tuple[float, float] | None
    times: tuple[str, str] | None
    null_times: int
    sha256: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def table(self, title: str) -> Table:
        rows = [
            ("Users", f"{self.users:,}"),
            ("Items", f"{self.items:,}"),
            ("Events", f"{self.events:,}"),
            ("Interactions (distinct pairs)", f"{self.interactions:,}"),
            ("Density", f"{self.density:.2%}"),
            ("Per user: least, median, most", _spread(self.per_user)),
            ("Per item: least, median, most", _spread(self.per_item)),
            ("Weights", "none" if self.weights is None else f"{self.weights[0]:g} to {self.weights[1]:g}"),
            ("Times", "none" if self.times is None else f"{self.times[0]} to {self.times[1]}"),
            ("Events without a time", f"{self.null_times:,}" if self.times is not None else "all"),
            ("SHA-256", self.sha256),
        ]
        return Table(title, ("", "Value"), tuple(rows))


def datasheet(data: Interactions) -> Datasheet:
    """The figures of `data`."""
    by_user, by_item = data.by(Side.USERS), data.by(Side.ITEMS)
    times, weighted = data.times, "weight" in data.events.columns
    known = times is not None and times.null_count() < len(times)
    return Datasheet(
        users=len(by_user.occupied),
        items=len(by_item.occupied),
        events=len(data),
        interactions=by_user.n_entries,
        density=by_user.n_entries / (len(by_user.occupied) * len(by_item.occupied)),
        per_user=_quantiles(by_user.counts[by_user.occupied]),
        per_item=_quantiles(by_item.counts[by_item.occupied]),
        weights=(float(by_user.weights.min()), float(by_user.weights.max())) if weighted else None,
        times=(str(times.min()), str(times.max())) if times is not None and known else None,
        null_times=times.null_count() if times is not None else len(data),
        sha256=data.digest(),
    )


def _quantiles(counts: Any) -> dict[str, float]:
    return {"min": float(counts.min()), "median": float(np.median(counts)), "max": float(counts.max())}


def _spread(values: dict[str, float]) -> str:
    return ", ".join(f"{value:g}" for value in values.values())
