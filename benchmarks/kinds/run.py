"""`python -m benchmarks kinds [--resume]`: every kind of request from every kind of original, cell by cell."""

from __future__ import annotations

import argparse
import copy
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions, Side
from alteraser.live.model import LiveModel
from alteraser.measure.agreement import rbo
from alteraser.measure.ranking import top_k
from alteraser.models.mf import MF
from benchmarks.kinds import page
from benchmarks.kinds.originals import DATASETS, FURTHER, OPTIMUM, ORIGINALS, Originals, load_data
from benchmarks.kinds.reference import References, in_double, loss, zeroed
from benchmarks.kinds.requests import KINDS, LARGE, Asked, Sampler, concerned
from benchmarks.kinds.scopes import compared
from benchmarks.timing import seconds_of_a_pass
from evidence.store import Result, Store

N_LARGE, N_OTHERS, LIST_LENGTH = 5, 50, 10
TIMES, REFERENCES, SCOPES = "times", "references", "scopes"
N_SCOPES = 5  # requests of a cell by each scope
ORIGINALS_FOLDER = Path(__file__).with_name("trained")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks kinds", description=__doc__)
    parser.add_argument(
        "--dataset",
        action="append",
        choices=(*DATASETS, *FURTHER),
        help=f"repeat; default: {', '.join(DATASETS)}",
    )
    parser.add_argument("--original", action="append", choices=ORIGINALS, help="repeat; default: all")
    parser.add_argument("--kind", action="append", choices=KINDS, help="repeat; default: all")
    parser.add_argument(
        "--what",
        choices=(TIMES, REFERENCES, SCOPES),
        help="only the times or the scopes, which want a quiet machine, or only the references (default: all)",
    )
    parser.add_argument(
        "--requests", type=int, default=100, help="timed requests of each kind (default: 100)"
    )
    parser.add_argument("--references", type=int, default=10, help="others with a reference (default: 10)")
    parser.add_argument("--resume", action="store_true", help="keep what is measured already")
    parser.add_argument("--data-dir", help="folder of the named data sets (default: $ALTERASER_DATA)")
    given = parser.parse_args(arguments)
    store = Store(page.RESULTS)
    store.create()
    wanted = [
        (what, original, kind)
        for what in ((TIMES, REFERENCES, SCOPES) if given.what is None else (given.what,))
        for original in given.original or ORIGINALS
        for kind in given.kind or KINDS
    ]
    for name in given.dataset or DATASETS:
        _measure(name, wanted, given, store)
        page.page(store).write()


def _measure(
    name: str, wanted: Sequence[tuple[str, str, str]], given: argparse.Namespace, store: Store
) -> None:
    """Measures the cells of one data set; times and references of a cell are kept apart."""
    found = {(each["what"], each["original"], each["kind"]): each for each in store.grown(name, "cells")}
    if given.resume:
        wanted = [cell for cell in wanted if cell not in found]
    if not wanted:
        return
    data = load_data(name, given.data_dir)
    originals, bench, of = Originals(name, data, ORIGINALS_FOLDER), None, ""
    for what, original, kind in wanted:
        if bench is None or of != original:
            folder = originals.folder / "references" / original.replace(" ", "-")
            bench = Bench(data, originals.model(original), folder, at_optimum=original == OPTIMUM)
            of = original
        measure: dict[str, Callable[[], Result]] = {
            TIMES: partial(bench.times, kind, given.requests),
            REFERENCES: partial(bench.references, kind, given.references),
            SCOPES: partial(bench.scopes, kind),
        }
        measured = measure[what]()
        record = {"what": what, "original": original, "kind": kind, **measured}
        # Others may have measured something else meanwhile, in another process.
        found = {(each["what"], each["original"], each["kind"]): each for each in store.grown(name, "cells")}
        found[what, original, kind] = store.stamped(record)
        store.write(name, {"data": name, "cells": list(found.values())})
        print(f"{name}, {original}, {kind}: {said(measured)}", flush=True)


def said(measured: Result) -> str:
    """A line on a cell that was measured."""
    if "seconds" in measured:
        return ", ".join(f"{name} {_median_ms(seconds)}" for name, seconds in measured["seconds"].items())
    if "passes" in measured:
        return f"{statistics.median(measured['passes']):.3f} T, worst {max(measured['passes']):.2f} T"
    left = [each["left_of_whole"] for each in measured["references"] if "left_of_whole" in each]
    others = statistics.mean(each["rbo_others"] for each in measured["references"])
    return f"left {statistics.mean(left) if left else float('nan'):.4f}, others {others:.4f}"


def _median_ms(seconds: Sequence[float | None]) -> str:
    found = [each for each in seconds if each is not None]
    return f"{1e3 * statistics.median(found):.1f} ms" if found else "never"


class Bench:
    """Requests of one original, each from the original itself."""

    def __init__(self, data: Interactions, original: MF, folder: Path, *, at_optimum: bool) -> None:
        self._data, self._original, self._at_optimum = data, original, at_optimum
        self._sampler, self._live = Sampler(data), LiveModel(original, data)
        self._references = References(original, data, at_optimum=at_optimum, folder=folder)
        for kind in KINDS[:2]:  # what is done once is done before
            copy.deepcopy(self._live).forget(self._sampler.sample(kind, 1)[0].requests)

    def times(self, kind: str, n: int) -> Result:
        """How many exact passes each request takes."""
        exact_pass = seconds_of_a_pass(self._original, self._data)
        seconds, rows = [], []
        for each in self._sampler.sample(kind, _at_most(n, kind)):
            live = copy.deepcopy(self._live)
            erased = live.forget(each.requests)
            seconds.append(erased.cost.seconds)
            rows.append(erased.cost.rows_visited)
        exact_pass = statistics.median([exact_pass, seconds_of_a_pass(self._original, self._data)])
        return {
            "pass_ms": 1e3 * exact_pass,
            "passes": [each / exact_pass for each in seconds],
            "rows_visited": rows,
        }

    def references(self, kind: str, n: int) -> Result:
        """How near requests come to their references."""
        asked = self._sampler.sample(kind, _at_most(n, kind))
        return {"references": [self._compare(each, f"{kind}-{each.digest}") for each in asked]}

    def scopes(self, kind: str) -> Result:
        """The default scope beside those it chooses from, and beside retraining."""
        return compared(self._live, self._original, self._sampler.sample(kind, N_SCOPES))

    def _compare(self, asked: Asked, name: str) -> Result:
        """What a request leaves of both gaps, and whose lists agree with the reference's."""
        live = copy.deepcopy(self._live)
        drift = live.forget(asked.requests).drift.loss_gap
        remain, unlearned = live.remain, live.model
        reference = self._references.find(remain, name=name)
        nothing_done = zeroed(self._original, remain)
        asking = concerned(asked, self._data)
        others = _most_different(
            nothing_done, reference.model, remain, np.unique(self._data.users[asked.deleted])
        )
        figures: dict[str, Any] = {
            "residual_left": reference.residual_left,
            "rbo_concerned": _agreement(unlearned, reference.model, asking, remain) if len(asking) else None,
            "rbo_others": _agreement(unlearned, reference.model, others, remain),
            "rbo_others_zeroed": _agreement(nothing_done, reference.model, others, remain),
        }
        if not self._at_optimum:
            return figures
        lowest = loss(reference.model, remain)
        left = loss(in_double(unlearned), remain) - lowest
        whole, rest = (loss(model, remain) - lowest for model in (in_double(self._original), nothing_done))
        return figures | {
            "left_of_whole": left / whole,
            "left_of_rest": left / rest,
            "rest_of_whole": rest / whole,
            "drift_over_gap": drift / left,
        }


def _at_most(n: int, kind: str) -> int:
    return min(n, N_LARGE) if kind in LARGE else n


def _agreement(first: MF, second: MF, users: NDArray[np.int64], remain: Interactions) -> float:
    """The mean RBO@10 of some users' lists, without what they have."""
    lists = [
        top_k(in_double(model), users, LIST_LENGTH, exclude=remain.by(Side.USERS))
        for model in (first, second)
    ]
    return float(np.mean(rbo(lists[0], lists[1], LIST_LENGTH)))


def _most_different(
    first: MF, second: MF, remain: Interactions, but: NDArray[np.signedinteger]
) -> NDArray[np.int64]:
    """The 50 users, `but` some, whose scores of all items differ most between two models, in the 2-norm."""
    (p, q), (p2, q2) = ((model.users.numpy(), model.items.numpy()) for model in (first, second))
    squares = sum(
        sign * np.einsum("ui,ij,uj->u", a, left.T @ right, b, optimize=True)
        for sign, a, left, right, b in ((1, p, q, q, p), (1, p2, q2, q2, p2), (-2, p, q, q2, p2))
    )
    distances = np.asarray(squares)
    distances[but] = -1
    distances[remain.by(Side.USERS).counts == 0] = -1
    order = np.argsort(-distances)
    return np.sort(order[distances[order] >= 0][:N_OTHERS])
