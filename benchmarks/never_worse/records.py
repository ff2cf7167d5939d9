"""What was measured: a record for each cell, in one file that grows while the benchmark runs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from evidence.store import Store

FORGETTING, AFFECTED, ALL, SESSION, LONG_SESSION = WAYS = (
    "forgetting",
    "affected",
    "all",
    "session",
    "long session",
)
NAME = "never-worse"
ROUNDING = {"float32": 1e-6, "float64": 1e-12}  # of the loss
FORMER_TOLERANCES = {AFFECTED: 0.012, ALL: 5e-4, SESSION: 0.3, LONG_SESSION: 0.3}
"""The tolerances of records that do not tell theirs: the defaults when those were measured."""


@dataclass(frozen=True)
class Cell:
    """One original, one kind of request, and one way to forget."""

    data: str
    model: str
    penalty: str
    precision: str
    original: str
    request: str
    way: str


@dataclass(frozen=True)
class Record:
    """What forgetting did in a cell, request by request: most cells have one, a long session has many.

    Losses are those of the model before and after a request on the data that this request leaves. The gradient and the
    gap are those of the original and of the last model on the data left in the end; the gap is known for originals at
    their optimum. `tolerance` is the share of it that may be left where forgetting says that it converged.
    """

    cell: Cell
    loss_before: list[float]
    loss_after: list[float]
    converged: list[bool]
    seconds: list[float]
    gradient_before: float
    gradient_after: float
    gap_opened: float | None = None
    gap_left: float | None = None
    tolerance: float | None = None
    commit: str | None = None

    @property
    def rises(self) -> list[float]:
        """By how much of itself each request raised the loss; a loss that is no number counts as infinite."""
        losses = zip(self.loss_before, self.loss_after, strict=True)
        rises = ((after - before) / before for before, after in losses)
        return [math.inf if math.isnan(rise) else rise for rise in rises]

    @property
    def n_beyond_rounding(self) -> int:
        """How many requests raised the loss."""
        return sum(rise > ROUNDING[self.cell.precision] for rise in self.rises)

    @property
    def share_left(self) -> float | None:
        """What is left of the gap that the requests opened; None where that is not known."""
        if self.gap_opened is None or self.gap_left is None:
            return None
        return self.gap_left / self.gap_opened

    @property
    def judged_by(self) -> float:
        """The tolerance it was measured with, as docs/how-it-works.md promises it; NaN where none is promised."""
        return FORMER_TOLERANCES.get(self.cell.way, math.nan) if self.tolerance is None else self.tolerance

    @property
    def breaks_its_word(self) -> bool:
        """Whether it converged, as it said, and left more than the tolerance, or a share that is no number."""
        if not all(self.converged) or self.share_left is None:
            return False
        return not self.share_left <= self.judged_by


def write(records: Iterable[Record], store: Store) -> None:
    """Puts these records in the place of those that were there."""
    store.write(NAME, {"records": [asdict(record) for record in records]})


def read(store: Store) -> list[Record]:
    """The records that were written; none if there are none yet."""
    return [Record(**(record | {"cell": Cell(**record["cell"])})) for record in store.grown(NAME, "records")]
