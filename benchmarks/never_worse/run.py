"""Measures the cells of a grid, one original after another."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from alteraser.data.datasets import load_dataset
from alteraser.data.interactions import Interactions
from alteraser.data.requests import Requests
from alteraser.live.model import TOLERANCE, LiveModel
from alteraser.live.scopes import SCOPES, named_scope
from alteraser.models.bilinear import Bilinear
from alteraser.unlearn.alteraser import AltEraser
from benchmarks.formula import Formula, Pairs
from benchmarks.generated import generated
from benchmarks.never_worse import records
from benchmarks.never_worse.grid import FULL, OPTIMUM, ORIGINALS, SMALL, Grid, Setting, ask
from benchmarks.never_worse.page import page
from benchmarks.never_worse.records import AFFECTED, ALL, LONG_SESSION, SESSION, Cell, Record
from benchmarks.page import RESULTS
from benchmarks.requests import lowest
from evidence.store import Store

WARMING_UP = Grid(
    tuple(Setting("generated", "MF", "scaled", precision) for precision in ("float32", "float64")),
    originals=("default",),
    in_a_row=4,
    n_generated=30_000,
)
TOLERANCES = {
    **{way: named_scope(way).tolerance for way in (AFFECTED, ALL)},
    **dict.fromkeys((SESSION, LONG_SESSION), TOLERANCE),
}
"""The defaults, with which is measured; where only the forgetting rows are solved, nothing is promised."""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks never-worse", description=__doc__)
    parser.add_argument("--small", action="store_true", help="a few cells, shown and not kept")
    parser.add_argument("--resume", action="store_true", help="keep the cells that were measured before")
    parser.add_argument("--data-dir", help="folder of the named data sets (default: $ALTERASER_DATA)")
    given = parser.parse_args(arguments)
    # Threads of numpy's BLAS wait by spinning, which takes the cores from the kernels: on a busy machine a session in
    # double precision took twenty times as long.
    with threadpool_limits(1, user_api="blas"):
        found = _small(given.data_dir) if given.small else _full(given.data_dir, resume=given.resume)
    print(page(found).text())


def _small(data_dir: str | None) -> list[Record]:
    return [record for part in measure(SMALL, data_dir) for record in part]


def _full(data_dir: str | None, *, resume: bool) -> list[Record]:
    """All records, those of an earlier run too if it is resumed; the file grows with every original."""
    store = Store(RESULTS)
    store.create()
    found = records.read(store) if resume else []
    for _ in measure(WARMING_UP, data_dir):
        pass  # compiles
    for part in measure(FULL, data_dir, done={record.cell for record in found}):
        found += [replace(record, commit=store.commit) for record in part]
        records.write(found, store)
    page(found).write()
    return found


def measure(grid: Grid, data_dir: str | None, *, done: Collection[Cell] = ()) -> Iterator[list[Record]]:
    """The records of one original after another, without the cells that are done."""
    for name in dict.fromkeys(setting.data for setting in grid.settings):
        data = _open(name, grid.n_generated, data_dir)
        settings = (setting for setting in grid.settings if setting.data == name)
        for setting, original in product(settings, grid.originals):
            cells = [cell for cell in grid.cells(setting, original) if cell not in done]
            if cells:
                trial = Trial.of(setting, original, data)
                found = [trial.measure(cell, grid.in_a_row) for cell in cells]
                print(f"  {' '.join(vars(setting).values())}, {original}: {_told(found)}", flush=True)
                yield found


def _open(name: str, n_generated: int, data_dir: str | None) -> Interactions:
    if name == "generated":
        return generated(n_generated, np.random.default_rng(0))
    return load_dataset(name, data_dir=data_dir)


def _told(found: Sequence[Record]) -> str:
    worst = max(rise for record in found for rise in record.rises)
    seconds = sum(sum(record.seconds) for record in found)
    return f"{len(found)} cells, worst rise {worst:.1e}, {seconds:.1f} s of forgetting"


@dataclass(frozen=True, eq=False)
class Answer:
    """The model after a request, and what the way that was taken says of it."""

    model: Bilinear
    converged: bool
    seconds: float
    n_remain: int


Forget = Callable[[Requests], Answer]


@dataclass(frozen=True, eq=False)
class Trial:
    """An original and its data, on which cells are measured."""

    original: Bilinear
    data: Interactions
    pairs: Pairs

    @classmethod
    def of(cls, setting: Setting, original: str, data: Interactions) -> Trial:
        """The original of that name, trained."""
        untrained = setting.untrained(data, even=original == OPTIMUM)
        model = ORIGINALS[original].train(untrained, data, rng=np.random.default_rng(0)).model
        return cls(model, data, Pairs.of(data))

    def measure(self, cell: Cell, in_a_row: int) -> Record:
        """Forgets what the cell asks for, request by request, each judged by the loss before and after it."""
        forget, present, before = self._way(cell.way), np.ones(len(self.data), dtype=bool), self.original
        losses, answers = [], []
        for asked in ask(cell, self.data, in_a_row):
            answer = forget(asked.requests)
            present = present & ~asked.deleted
            assert answer.n_remain == present.sum(), "something else was deleted than was asked for"
            remain = self.pairs.only(present)
            losses.append((Formula(before, remain).loss, Formula(answer.model, remain).loss))
            answers.append(answer)
            before = answer.model
        tolerance = TOLERANCES.get(cell.way)
        known = cell.original == OPTIMUM and tolerance is not None
        opened, left = self._gap(before, present) if known else (None, None)
        return Record(
            cell=cell,
            loss_before=[loss for loss, _ in losses],
            loss_after=[loss for _, loss in losses],
            converged=[answer.converged for answer in answers],
            seconds=[round(answer.seconds, 6) for answer in answers],
            gradient_before=Formula(self.original, self.pairs.only(present)).gradient_norm,
            gradient_after=Formula(before, self.pairs.only(present)).gradient_norm,
            gap_opened=opened,
            gap_left=left,
            tolerance=tolerance,
        )

    def _way(self, way: str) -> Forget:
        """AltEraser with the scope of that name, always from the original; or a live model."""
        for scope in SCOPES:
            if scope == way:
                return self._by(AltEraser(scope=scope))
        return self._session()

    def _by(self, eraser: AltEraser) -> Forget:
        def forget(requests: Requests) -> Answer:
            erasure = eraser.forget(self.original, self.data, requests)
            return Answer(erasure.model, erasure.converged, erasure.cost.seconds, len(erasure.remain))

        return forget

    def _session(self) -> Forget:
        live = LiveModel(self.original, self.data)

        def forget(requests: Requests) -> Answer:
            erased = live.forget(requests)
            return Answer(live.model, erased.converged, erased.cost.seconds, len(live.remain))

        return forget

    def _gap(self, unlearned: Bilinear, present: NDArray[np.bool_]) -> tuple[float, float]:
        """How far above the optimum of what remains the original is, and the unlearned model."""
        remain = self.pairs.only(present)
        least = Formula(lowest(unlearned, self.data.only(present)), remain).loss
        return Formula(self.original, remain).loss - least, Formula(unlearned, remain).loss - least
