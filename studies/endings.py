"""Where training ends, by default or at the optimum: what that costs, and what it buys a model that forgets.

Both are trained on the same part of each data set with the same settings. 64 users then delete half of their history in
a live model; the result is set beside a model that is retrained by the same trainer from other random rows.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions, Side
from alteraser.data.requests import Requests
from alteraser.live.model import LiveModel
from alteraser.measure.agreement import rbo
from alteraser.measure.ranking import top_k
from alteraser.models.mf import MF
from alteraser.train.als import ALS
from alteraser.train.named import TO_THE_OPTIMUM
from alteraser.tuning.choose import choose_objective
from evidence.page import Page, measured_at, table
from evidence.store import Result, Store
from studies.defaults_data import ORIGINALS, named_case
from studies.defaults_split import Split

FOLDER = "endings"
N_FORGETTING, N_OTHERS, N_ACCOUNTS, K = 64, 500, 20, 10
DEFAULT, OPTIMUM = "default", "optimum"
TRAINERS = {DEFAULT: ALS(), OPTIMUM: TO_THE_OPTIMUM}
Announce = Callable[[str], None]
LEAD = """`alteraser train` ends when a pass lowers the loss by less than a hundred thousandth of it. Training can also
go on to the optimum (`--trainer newton`), from which nothing is left to be trained. This page sets
both beside each other on nine data sets (80 % of each user's items, 64 dimensions, the settings that `train` chooses):
what the optimum costs, and what it buys. *Agreement* is RBO@10 of the lists of an unlearned model, from which 64 users
have deleted half of their history, with those of a model that the same trainer trains from other random rows on what
remains: over the 64 users, and over 500 others. *Account*: the median of 20 accounts, each forgotten by a live model.
The default stays where it is: lists are as good, an account is forgotten as fast, and training takes a fraction of
the time. Whoever has to come as near to retraining as can be trains by `--trainer newton`.
Made by `make results-page` from [results/endings](results/endings), which `python -m studies endings` wrote.
"""


def measure(
    names: Sequence[str], store: Store, *, folder: Path, dim: int = 64, announce: Announce = lambda _: None
) -> list[Result]:
    """The records of some data sets; those that the store holds are not made again."""
    store.create()
    records = []
    for name in names:
        if not store.has(name):
            announce(name)
            split = Split.of(named_case(name).load(folder), 0, dim=dim)
            store.write(name, store.stamped({"data": name, **of_split(split)}))
        records.append(store.read(name))
    return records


def of_split(split: Split) -> Result:
    """What each way to end costs and buys on one split."""
    objective = choose_objective(split.train, dim=split.dim, rng=np.random.default_rng(0)).objective
    start, rng = split.untrained(objective), np.random.default_rng(7)
    requests, users, others = _draw(split.train, rng)
    accounts = rng.choice(np.flatnonzero(split.train.by(Side.USERS).counts), N_ACCOUNTS, replace=False)
    return {
        "objective": {"w0": objective.w0, "l2": objective.l2},
        "ends": {
            name: _of_trainer(trainer, start, split, requests, users, others, accounts)
            for name, trainer in TRAINERS.items()
        },
    }


def _of_trainer(
    trainer: ALS,
    start: MF,
    split: Split,
    requests: Requests,
    users: NDArray[np.int64],
    others: NDArray[np.int64],
    accounts: NDArray[np.int64],
) -> Result:
    began = time.perf_counter()
    training = trainer.train(start, split.train, rng=None)
    seconds, original = time.perf_counter() - began, training.model
    opened = LiveModel(original, split.train)
    ids, took = split.train.user_vocabulary.ids, []
    for account in accounts.tolist():
        live = copy.deepcopy(opened)
        took.append(live.forget([{"user": ids[account]}]).cost.seconds)
    erased = opened.forget(requests)
    remain, unlearned = opened.remain, opened.model
    retrained = trainer.train(start.fresh(np.random.default_rng(11)), remain, rng=None).model
    seen = remain.by(Side.USERS)

    def agreement(model: MF, rows: NDArray[np.int64]) -> float:
        ours, theirs = (top_k(each, rows, K, exclude=seen) for each in (model, retrained))
        return float(np.mean(rbo(ours, theirs, K)))

    return {
        "seconds": seconds,
        "passes": len(training.losses),
        "loss": training.losses[-1],
        **split.ndcg(original),
        "agreement": agreement(unlearned, users),
        "agreement_others": agreement(unlearned, others),
        "agreement_original": agreement(original, users),
        "account_ms": 1e3 * statistics.median(took),
        "account_worst_ms": 1e3 * max(took),
        "batch_seconds": erased.cost.seconds,
        "batch_converged": erased.converged,
    }


def _draw(
    data: Interactions, rng: np.random.Generator
) -> tuple[Requests, NDArray[np.int64], NDArray[np.int64]]:
    """Halves of the histories of some users, who they are, and as many of the others as lists are compared of."""
    by_user = data.by(Side.USERS)
    able = rng.permutation(np.flatnonzero(by_user.counts >= 2))
    users, others = np.sort(able[:N_FORGETTING]), np.sort(able[N_FORGETTING : N_FORGETTING + N_OTHERS])
    rows, items = [], []
    for user in users.tolist():
        held = by_user.columns[by_user.row(user)]
        half = rng.choice(held, len(held) // 2, replace=False)
        rows.append(np.full(len(half), user))
        items.append(half)
    ids = (
        data.user_vocabulary.ids.gather(np.concatenate(rows)),
        data.item_vocabulary.ids.gather(np.concatenate(items)),
    )
    return Requests.pairs(*ids), users, others


def add_page(path: Path, folder: Path) -> int:
    """Writes the page; returns how many results there are."""
    found = dict(Store(folder).all())
    results = [found[name] for name in ORIGINALS if name in found]
    page = Page(path)
    page.add(
        "# Where training ends", LEAD, measured_at(results) if results else "Nothing of it was measured yet."
    )
    if missing := [name for name in ORIGINALS if name not in found]:
        page.add(f"Not measured yet: {', '.join(missing)}.")
    if results:
        page.add(_verdict(results), table(_COLUMNS, map(_row, results)))
    page.write()
    return len(results)


_COLUMNS = (
    "Data",
    "Training, s: default, optimum",
    "Times as long",
    "NDCG@10: default, optimum",
    "Agreement: default, optimum",
    "Others: default, optimum",
    "Account, ms: default, optimum",
)


def _row(result: Result) -> tuple[str, ...]:
    def both(key: str, form: str) -> str:
        return ", ".join(format(result["ends"][end][key], form) for end in (DEFAULT, OPTIMUM))

    return (
        result["data"],
        both("seconds", ".2f"),
        f"{ratio(result, 'seconds'):.1f}",
        both("test", ".4f"),
        both("agreement", ".4f"),
        both("agreement_others", ".4f"),
        both("account_ms", ".1f"),
    )


def ratio(result: Result, key: str) -> float:
    """A figure at the optimum over that by default."""
    return float(result["ends"][OPTIMUM][key] / result["ends"][DEFAULT][key])


def _verdict(results: Sequence[Result]) -> str:
    """What follows for the default, told by the figures."""
    longer = [ratio(each, "seconds") for each in results]
    lists = [ratio(each, "test") for each in results]
    gained = [each["ends"][OPTIMUM]["agreement"] - each["ends"][DEFAULT]["agreement"] for each in results]
    faster = [1 / ratio(each, "account_ms") for each in results]
    return (
        f"The optimum takes {statistics.median(longer):.1f} times as long at the median (at most {max(longer):.1f}); "
        f"NDCG@10 there is {statistics.median(lists):.3f} of the default's ({min(lists):.3f} to {max(lists):.3f}); "
        f"agreement of the forgetting users' lists is {statistics.median(gained):+.3f} ({min(gained):+.3f} to "
        f"{max(gained):+.3f}); an account is forgotten {statistics.median(faster):.2f} times as fast "
        f"({min(faster):.2f} to {max(faster):.2f})."
    )
