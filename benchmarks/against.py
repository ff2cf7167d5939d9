"""`python -m benchmarks against REV`: is the working tree faster or slower than another revision?

Both run side by side, each in a process of its own that lives as long as the benchmark, and take turns: a round gives a
ratio, and whatever slows the machine slows both. They start from the same originals, trained once, and answer the same
requests, and one function computes the losses that they reach.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from alteraser.data.datasets import load_dataset
from alteraser.data.interactions import Interactions
from alteraser.models.mf import MF
from alteraser.models.objective import Objective
from alteraser.train.named import TO_THE_OPTIMUM
from benchmarks.formula import Formula, Pairs
from benchmarks.page import RESULTS
from benchmarks.requests import lowest
from benchmarks.timing import alternating, quartiles, ratios
from evidence.page import table as markdown
from evidence.revision import ROOT, git
from evidence.store import Store

WORKER = Path(__file__).with_name("against_worker.py")
DIM, N_BATCH, N_REQUESTS = 64, 64, 20
OBJECTIVES = {
    "ml-1m": {"w0": 0.3, "l2": 0.01},
    "amazon-14core": {"w0": 0.1, "l2": 0.04},
    "kuairec-binary": {"w0": 0.3, "l2": 0.02},
}
TASKS = {
    "passes": ("ml-1m",),
    "request": ("ml-1m",),
    "batch": ("ml-1m", "amazon-14core"),
    "batch_all": ("ml-1m", "amazon-14core", "kuairec-binary"),
}
PARTS = {"request": N_REQUESTS}  # requests of one session; the two revisions take turns at each
NEW, OLD = "new", "old"


@dataclass(frozen=True)
class Figure:
    """One task with one data set: the seconds of both revisions in each round, the losses that they reached, and what
    they left of the gap between the original and the optimum of what remains.
    """

    task: str
    data: str
    seconds: dict[str, list[float]]
    loss: dict[str, float]
    gap_left: dict[str, float]  # of the gap that the requests opened; not a number where none was opened

    @property
    def ratio(self) -> tuple[float, float, float]:
        """The quartiles of new over old."""
        return quartiles(ratios(self.seconds, NEW, OLD))


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks against", description=__doc__)
    parser.add_argument("revision", metavar="REV", help="what the working tree is compared with")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--what", default=",".join(TASKS), help=f"some of {', '.join(TASKS)}, with commas between"
    )
    parser.add_argument("--data-dir", help="folder of the named data sets (default: $ALTERASER_DATA)")
    given = parser.parse_args(arguments)
    tasks = [task.strip() for task in given.what.split(",")]
    if unknown := set(tasks) - set(TASKS):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(TASKS)}")
    if given.rounds < 1:
        parser.error(f"--rounds is {given.rounds}; a whole number from 1 up is wanted")
    try:
        commit = git("rev-parse", "--verify", "--quiet", f"{given.revision}^{{commit}}")
    except subprocess.CalledProcessError:
        parser.error(f"there is no revision {given.revision}")
    store = Store(RESULTS)
    store.create()
    figures = measure(commit, tasks, rounds=given.rounds, data_dir=given.data_dir)
    told = [asdict(figure) | {"ratio": figure.ratio} for figure in figures]
    store.write("against", store.stamped({"revisions": {NEW: store.commit, OLD: commit}, "figures": told}))
    print(table(figures))


def measure(commit: str, tasks: Sequence[str], *, rounds: int, data_dir: str | None) -> list[Figure]:
    """Every task with each of its data sets, the two revisions in turn."""
    names = dict.fromkeys(name for task in tasks for name in TASKS[task])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cases = {name: Case.prepared(name, folder, data_dir) for name in names}
        sources = {NEW: ROOT / "src", OLD: stack.enter_context(_worktree(commit, folder / "tree")) / "src"}
        workers = {
            side: stack.enter_context(Worker(source, folder, data_dir)) for side, source in sources.items()
        }
        return [_figure(task, cases[name], workers, folder, rounds) for task in tasks for name in TASKS[task]]


def _figure(task: str, case: Case, workers: Mapping[str, Worker], folder: Path, rounds: int) -> Figure:
    print(f"  {task}, {case.name} …", flush=True)
    loss, gap_left, parts = {}, {}, PARTS.get(task, 1)
    for side, worker in workers.items():  # also compiles
        reached = folder / f"{side}.npz"
        for part in range(parts):
            worker.run(task, case.name, part, tables=reached)
        loss[side], gap_left[side] = case.loss(task, reached), case.gap_left(task, reached)
    runs = {side: partial(worker.run, task, case.name) for side, worker in workers.items()}
    seconds = alternating(runs, rounds=rounds, parts=parts)
    return Figure(task, case.name, seconds, loss, gap_left)


def table(figures: Sequence[Figure]) -> str:
    """A row for each figure, in Markdown."""
    rows = []
    for figure in figures:
        medians = (f"{1e3 * statistics.median(figure.seconds[side]):.2f}" for side in (NEW, OLD))
        low, middle, high = (f"{ratio:.3f}" for ratio in figure.ratio)
        losses = (f"{figure.loss[side]:.4f}" for side in (NEW, OLD))
        gaps = (f"{figure.gap_left[side]:.2e}" for side in (NEW, OLD))
        rows.append((figure.task, figure.data, *medians, middle, low, high, *losses, *gaps))
    columns = (
        "task",
        "data",
        "new, ms",
        "old, ms",
        "new / old",
        "a quarter below",
        "a quarter above",
        "loss, new",
        "old",
        "gap left, new",
        "old",
    )
    return markdown(columns, rows)


@dataclass(frozen=True, eq=False)
class Case:
    """A data set with an original at its optimum, and what each task deletes."""

    name: str
    original: MF
    data: Interactions
    pairs: Pairs
    deleted: dict[str, NDArray[np.bool_]]

    @classmethod
    def prepared(cls, name: str, folder: Path, data_dir: str | None) -> Self:
        """Trained, with its requests drawn, and written down for the workers."""
        print(f"  training on {name} …", flush=True)
        data, rng = load_dataset(name, data_dir=data_dir), np.random.default_rng(0)
        fresh = MF.sized_for(data, dim=DIM, objective=Objective(**OBJECTIVES[name]), rng=rng)
        original = TO_THE_OPTIMUM.train(fresh, data, rng=rng).model
        histories = HalfHistories(data, rng)
        one_by_one = histories.draw(1 + N_REQUESTS)
        at_once = histories.draw(N_BATCH)
        told = {
            "objective": OBJECTIVES[name],
            "request": [[histories.request(events)] for events in one_by_one],
            "batch": [histories.request(events) for events in at_once],
        }
        (folder / f"{name}.json").write_text(json.dumps(told), encoding="utf-8")
        np.savez(folder / f"{name}.npz", users=original.users.numpy(), items=original.items.numpy())
        events = {"passes": [], "request": one_by_one, "batch": at_once, "batch_all": at_once}
        deleted = {task: histories.mask(some) for task, some in events.items()}
        return cls(name, original, data, Pairs.of(data), deleted)

    def loss(self, task: str, tables: Path) -> float:
        """The loss of tables that a task left, on what it left of the data."""
        return Formula(self._model(tables), self._remain(task)).loss

    def gap_left(self, task: str, tables: Path) -> float:
        """How much is left of the gap that a task's requests opened; not a number where it makes none."""
        if not self.deleted[task].any():
            return math.nan
        model, remain = self._model(tables), self._remain(task)
        best = Formula(lowest(model, self.data.without(self.deleted[task])), remain).loss
        return (Formula(model, remain).loss - best) / (Formula(self.original, remain).loss - best)

    def _model(self, tables: Path) -> MF:
        held = np.load(tables)
        users, items = (torch.from_numpy(held[side]) for side in ("users", "items"))
        return replace(self.original, users=users, items=items)

    def _remain(self, task: str) -> Pairs:
        return self.pairs.only(~self.deleted[task])


@dataclass(frozen=True, eq=False)
class HalfHistories:
    """Draws users who delete a random half of their history."""

    data: Interactions
    rng: np.random.Generator

    def draw(self, n_users: int) -> list[NDArray[np.int64]]:
        """The events of each of some users who have two or more."""
        users = self.data.users
        chosen = self.rng.choice(np.flatnonzero(np.bincount(users) >= 2), n_users, replace=False)
        histories = (np.flatnonzero(users == user) for user in chosen)
        return [self.rng.choice(events, len(events) // 2, replace=False) for events in histories]

    def mask(self, histories: Sequence[NDArray[np.int64]]) -> NDArray[np.bool_]:
        """Which events are in one of these."""
        mask = np.zeros(len(self.data), dtype=bool)
        for events in histories:
            mask[events] = True
        return mask

    def request(self, events: NDArray[np.int64]) -> dict[str, Any]:
        """A request for one user's events, as it is written in a file of requests."""
        ids = self.data.user_vocabulary.ids, self.data.item_vocabulary.ids
        user, items = self.data.users[events[0]], self.data.items[events]
        return {"user": ids[0][int(user)], "items": ids[1].gather(items).to_list()}


class Worker:
    """A process that runs tasks with the package of one source folder."""

    def __init__(self, source: Path, folder: Path, data_dir: str | None) -> None:
        # Without the folder of the script on the path (-P), where a `requests` of ours would hide another.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(WORKER), str(folder), data_dir or ""],
            env=os.environ | {"PYTHONPATH": str(source)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self._check(source)
        except BaseException:
            self.end()
            raise

    def _check(self, source: Path) -> None:
        """Raises unless the package was imported from where it should be."""
        held = Path(self._answer()["source"]).resolve()
        if not held.is_relative_to(source.resolve()):
            raise RuntimeError(f"{held} was imported instead of the package in {source}.")

    def run(self, task: str, data: str, part: int = 0, *, tables: Path | None = None) -> float:
        """The seconds that the task says it took; the tables that it ends with go to a file if one is named."""
        assert self._process.stdin is not None
        asked = {"task": task, "data": data, "part": part, "tables": str(tables) if tables else None}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return float(self._answer()["seconds"])

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"A worker ended with status {self._process.wait()}; it says above why.")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def _worktree(commit: str, place: Path) -> Iterator[Path]:
    """The files of a commit, in a folder that is gone afterwards."""
    git("worktree", "add", "--detach", str(place), commit)
    try:
        yield place
    finally:
        git("worktree", "remove", "--force", str(place))
