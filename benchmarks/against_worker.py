"""One side of `python -m benchmarks against REV`: runs tasks with whichever revision PYTHONPATH names.

Started as a script, so that nothing of this revision comes with it; it uses only names that revisions have in common.
Reads a task a line from standard input, answers each with its seconds, and compiles nothing while it is timed: the
first time a task runs does not count.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import alteraser as ae  # before torch: it says how idle threads wait

# isort: split
import torch


class Answer(NamedTuple):
    """How long a task took, and the model that it ends with, made when it is asked for."""

    seconds: float
    model: Callable[[], Any]


class Worker:
    """The originals, their data and their requests, and what is done with them.

    A folder holds for each data set `NAME.npz`, the tables of its original, and `NAME.json`: the objective and, under
    the name of each task, its requests.
    """

    def __init__(self, folder: Path, data_dir: str | None) -> None:
        self._folder, self._data_dir = folder, data_dir
        self._case = cache(self._read)
        self._session: Any = None

    def passes(self, name: str, part: int) -> Answer:
        """One exact pass: all users given the items, then all items given the users."""
        del part  # there is but one
        from alteraser.optim.newton import ah_newton
        from alteraser.sweep.sweep import Rows, Sweeper

        data, original, _ = self._case(name)
        began = time.perf_counter()
        model = Sweeper(ah_newton).sweep(original, data, Rows.occupied(data))
        return Answer(time.perf_counter() - began, lambda: model)

    def request(self, name: str, part: int) -> Answer:
        """One request of those that follow each other in a session; the first opens it, and another warms it up."""
        data, original, told = self._case(name)
        warming_up, *asked = told["request"]
        if part == 0:
            self._session = _session_type()(original, data)
            self._session.forget(ae.Requests.of(warming_up))
        session, requests = self._session, ae.Requests.of(asked[part])
        began = time.perf_counter()
        session.forget(requests)
        return Answer(time.perf_counter() - began, lambda: session.model)

    def batch(self, name: str, part: int) -> Answer:
        """Many users at once, by the rows that they affect."""
        del part
        data, original, told = self._case(name)
        outcome = ae.AltEraser(scope="affected").forget(original, data, ae.Requests.of(told["batch"]))
        return Answer(outcome.cost.seconds, lambda: outcome.model)

    def batch_all(self, name: str, part: int) -> Answer:
        """The same users at once, by all rows."""
        del part
        data, original, told = self._case(name)
        outcome = ae.AltEraser(scope="all").forget(original, data, ae.Requests.of(told["batch"]))
        return Answer(outcome.cost.seconds, lambda: outcome.model)

    def _read(self, name: str) -> tuple[Any, Any, dict[str, Any]]:
        told = json.loads((self._folder / f"{name}.json").read_text(encoding="utf-8"))
        held = np.load(self._folder / f"{name}.npz")
        users, items = (torch.from_numpy(held[side]) for side in ("users", "items"))
        data = ae.load_dataset(name, data_dir=self._data_dir)
        objective, rng = ae.Objective(**told["objective"]), np.random.default_rng(0)
        fresh = ae.MF.sized_for(data, dim=users.shape[1], objective=objective, rng=rng)
        return data, replace(fresh, users=users, items=items), told


def _session_type() -> Any:
    """The class of sessions, which has not the same name in all revisions."""
    return next(getattr(ae, name) for name in ("LiveModel", "Eraser") if hasattr(ae, name))


def main(folder: str, data_dir: str = "") -> None:
    worker = Worker(Path(folder), data_dir or None)
    print(json.dumps({"source": ae.__file__}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        answer = getattr(worker, asked["task"])(asked["data"], asked["part"])
        if asked["tables"]:
            model = answer.model()
            np.savez(asked["tables"], users=model.users.numpy(), items=model.items.numpy())
        print(json.dumps({"seconds": answer.seconds}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
