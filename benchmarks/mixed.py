"""Ten thousand mixed changes, one after another, in one live model: where it ends, what it takes, how far it strays.

Of the changes 60 % learn and 40 % forget; one in ten of all forgets a whole account, one in a hundred an item. A model
trained anew to its optimum on the data at the end is what the live model is compared with.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alteraser.data.frames import interactions
from alteraser.data.interactions import Interactions, Side
from alteraser.data.requests import Requests
from alteraser.live.model import LiveModel
from alteraser.measure.agreement import rbo
from alteraser.measure.ranking import top_k
from alteraser.models.mf import MF
from alteraser.train.named import TO_THE_OPTIMUM
from alteraser.tuning.choose import choose_objective
from benchmarks.gap import GRADIENT_LEFT, true_gap
from benchmarks.kinds.originals import DIM, load_data
from benchmarks.learning import EVENTS, N_EVENTS, EventSampler

# The last shows what a tenth of the default limit of drift buys, and what it costs.
CASES = (("ml-1m", 1e-4), ("generated 1 M", 1e-4), ("ml-1m", 1e-5))
N_CHANGES, N_USERS, N_MOMENTS = 10_000, 1000, 20
ACCOUNTS, ITEMS, FORGETS = 0.1, 0.01, 0.4
DRIFT_LIMIT = 1e-4
LIMITS = {
    "rbo": 0.98,
    "gap_over_limit": 2.0,
    "last_over_first": 1.2,
    "memory": 1.05,
    "scores_moved": 1e-2,
    "scores_moved_clean": 1e-3,
}


def measure(data_dir: str | None) -> dict[str, Any]:
    """The figures of each data set; each in a process of its own, for its memory."""
    return {
        "limits": LIMITS,
        "changes": N_CHANGES,
        "gradient_left": GRADIENT_LEFT,
        "figures": [_in_own_process(name, limit, data_dir) for name, limit in CASES],
    }


def _in_own_process(name: str, drift_limit: float, data_dir: str | None) -> dict[str, Any]:
    given = [name, str(drift_limit), *([data_dir] if data_dir else [])]
    command = [sys.executable, "-m", "benchmarks.mixed", *given]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def of(
    name: str,
    data: Interactions,
    *,
    drift_limit: float = DRIFT_LIMIT,
    n_changes: int = N_CHANGES,
    n_users: int = N_USERS,
) -> dict[str, Any]:
    """All figures of one data set."""
    rng = np.random.default_rng(0)
    objective = choose_objective(data, dim=DIM, rng=rng).objective
    start = MF.sized_for(data, dim=DIM, objective=objective, rng=rng)
    # A tenth of the events is left out, to be learned.
    later = rng.random(len(data)) < 0.1
    begin = interactions(data.without(later).to_frame())
    stream = Stream(begin, interactions(data.only(later).to_frame()), rng)
    trained = TO_THE_OPTIMUM.train(_sized(start, begin, rng), begin, rng=None).model
    live = LiveModel(trained, begin, drift_limit=drift_limit)
    limit = drift_limit * trained.loss(begin)
    seconds, kinds, clean_ups, gaps = [], [], 0, []
    for number in range(n_changes):
        kind, change = stream.next()
        done = live.apply(**change)
        seconds.append(done.cost.seconds)
        kinds.append(kind)
        clean_ups += done.cleaned_up
        if (number + 1) % max(n_changes // N_MOMENTS, 1) == 0:
            gap, estimate = true_gap(live), live.drift().loss_gap
            gaps.append({"after": number + 1, "true": gap / limit, "estimate": estimate / limit})
            print(
                f"  {name}: {number + 1} of {n_changes}; gap {gap / limit:.2f} limits",
                file=sys.stderr,
                flush=True,
            )
    remain, model = live.remain, live.model
    memory = held_bytes(live) / held_bytes(LiveModel(model, remain))
    occupied = remain.by(Side.USERS).occupied
    users = np.sort(rng.choice(occupied, min(n_users, len(occupied)), replace=False))
    share = n_changes // 10
    by_kind = {
        kind: 1e3 * statistics.median(each for each, its in zip(seconds, kinds, strict=True) if its == kind)
        for kind in dict.fromkeys(kinds)
    }
    return {
        "dataset": name,
        "drift_limit": drift_limit,
        "interactions": len(begin),
        **_agreement(model, remain, users, rng),
        "gaps": gaps,
        "gap_over_limit": max(each["true"] for each in gaps),
        "last_over_first": sum(seconds[-share:]) / sum(seconds[:share]),
        "medians": statistics.median(seconds[-share:]) / statistics.median(seconds[:share]),
        "memory": memory,
        "clean_ups": clean_ups,
        "p50_ms_by_kind": by_kind,
        "mean_ms": 1e3 * statistics.mean(seconds),
        "worst_ms": 1e3 * max(seconds),
        **_learned_and_forgotten(live, users, rng),
    }


def _agreement(
    model: MF, remain: Interactions, users: NDArray[np.int64], rng: np.random.Generator
) -> dict[str, float]:
    """RBO@10 of some users' lists with a model trained anew, and that of two models trained anew with one another."""
    retrained = [TO_THE_OPTIMUM.train(model.fresh(rng), remain, rng=None).model for _ in range(2)]
    ours, theirs, others = (
        top_k(each, users, 10, exclude=remain.by(Side.USERS)) for each in (model, *retrained)
    )
    found = rbo(ours, theirs, 10)
    return {
        "rbo": float(np.mean(found)),
        "rbo_median": float(np.median(found)),
        "rbo_of_two_retrained": float(np.mean(rbo(theirs, others, 10))),
    }


class Stream:
    """Mixed changes: events to learn in the order in which they are drawn, and users and items to forget."""

    def __init__(self, begin: Interactions, later: Interactions, rng: np.random.Generator) -> None:
        self._later, self._rng = later.to_frame().sample(fraction=1, shuffle=True, seed=1), rng
        self._users = rng.permutation(begin.user_vocabulary.ids.to_numpy()).tolist()
        self._items = rng.permutation(begin.item_vocabulary.ids.to_numpy()).tolist()
        self._begin, self._at, self._popped = begin, 0, set[Any]()
        self._of_user = begin.by(Side.USERS)
        self._row = {user: row for row, user in enumerate(begin.user_vocabulary.ids.to_list())}

    def next(self) -> tuple[str, dict[str, Any]]:
        """The kind of the next change, and what `LiveModel.apply` is given."""
        drawn = self._rng.random()
        if drawn < ITEMS:
            return "an item", {"forget": [{"item": self._items.pop()}], "missing": "ignore"}
        if drawn < ACCOUNTS + ITEMS:
            return "an account", {"forget": [{"user": self._users.pop()}], "missing": "ignore"}
        if drawn < FORGETS:
            user = self._users.pop(0)
            self._users.append(user)  # of the accounts those that waited longest are asked last
            held = self._of_user.columns[self._of_user.row(self._row[user])]
            some = self._rng.choice(held, min(3, len(held)), replace=False)
            wish = {"user": user, "items": self._begin.item_vocabulary.ids.gather(some).to_list()}
            return "some items of a user", {"forget": [wish], "missing": "ignore"}
        n = int(self._rng.integers(1, N_EVENTS + 1))
        if self._at + n > len(self._later):
            self._at = 0
        events = self._later.slice(self._at, n)
        self._at += n
        return "new events", {"learn": events}


def _sized(start: MF, data: Interactions, rng: np.random.Generator) -> MF:
    return MF.sized_for(data, dim=start.dim, objective=start.objective, rng=rng)


def _learned_and_forgotten(
    live: LiveModel[MF], users: NDArray[np.int64], rng: np.random.Generator, n_changes: int = 50
) -> dict[str, float]:
    """How far scores are moved by changes that are learned and then forgotten, at once and after a clean-up."""
    live.clean_up()
    draw, before = EventSampler(live.remain), live.model
    learned = [draw.draw(EVENTS, rng) for _ in range(n_changes)]
    events = pl.concat(learned).unique()
    for change in learned:
        live.learn(change)
    live.forget(Requests.pairs(events["user_id"], events["item_id"]))
    concerned = _rows_of(live, events["user_id"])
    users = np.union1d(users, concerned)
    moved = _moved(before, live.model, users)
    live.clean_up()
    return {"scores_moved": moved, "scores_moved_clean": _moved(before, live.model, users)}


def _rows_of(live: LiveModel[MF], user_ids: pl.Series) -> NDArray[np.int64]:
    """The rows of some users."""
    return np.unique(live.remain.user_vocabulary.rows(user_ids))


def _moved(before: MF, after: MF, users: NDArray[np.int64]) -> float:
    """The Frobenius norm of the difference of the scores of some users, over that of the scores before."""
    first, second = before.scores(users), after.scores(users)
    return float((second - first).norm() / first.norm())


def held_bytes(held: Any) -> int:
    """The bytes of all arrays and columns that an object holds, what is kept free for more included."""
    seen: set[int] = set()
    total, stack = 0, [held]
    while stack:
        each = stack.pop()
        if id(each) in seen or isinstance(each, type):
            continue
        seen.add(id(each))
        match each:
            case np.ndarray():
                if each.base is None:
                    total += each.nbytes
                else:
                    stack.append(each.base)
            case pl.Series() | pl.DataFrame():
                total += int(each.estimated_size())
            case dict():
                total += sys.getsizeof(each) + sum(map(sys.getsizeof, each))
                stack += each.values()
            case list() | tuple() | set():
                total += sys.getsizeof(each)
                stack += each
            case _:
                stack += getattr(each, "__dict__", {}).values()
    return total


if __name__ == "__main__":
    name, drift_limit, *folder = sys.argv[1:]
    found = of(name, load_data(name, folder[0] if folder else None), drift_limit=float(drift_limit))
    print(json.dumps(found))
