"""The demo: one account is forgotten, then what was not some users' own, each beside retraining without it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from alteraser.data.demo_data import ForeignTaste, foreign_taste
from alteraser.data.interactions import Interactions, Side
from alteraser.data.requests import Requests
from alteraser.data.synthetic import topic_of
from alteraser.live.erasure import Erasure
from alteraser.live.model import LiveModel
from alteraser.measure.agreement import rbo, re_predict
from alteraser.measure.compare import Report, compare
from alteraser.measure.ranking import top_k
from alteraser.models.mf import MF
from alteraser.report.html import Line, Listing
from alteraser.sweep.sweep import Progress
from alteraser.train.als import ALS
from alteraser.train.fit import fit
from alteraser.tuning.choose import choose_objective
from alteraser.unlearn.retrain import Retrain

DATASET, DIM, LIST_LENGTH = "hobbies", 64, 10
TRAINER = ALS(max_passes=300, tolerance=1e-6)
# So many lists tell how the other users fare; all of them would take longer than forgetting by far.
MAX_OTHERS = 4000
# Accounts whose median is shown: a single one takes twice as long now and then.
N_ACCOUNTS = 9
Stage = Callable[[str], AbstractContextManager[Progress | None]]


@dataclass(frozen=True)
class AccountErasure:
    """One account forgotten in a live model, beside a model retrained without it.

    `seconds` is the median of `n_accounts` that were forgotten one after another; all else is of the first. `rbo` is
    the mean agreement of `n_others` other users' lists with the retrained model's, `re_predict` the mean score of what
    the account had; both by model.
    """

    n_interactions: int
    n_accounts: int
    seconds: float
    opening_seconds: float
    retraining_seconds: float
    retraining_passes: int
    rows_visited: int
    n_rows: int
    n_others: int
    rbo: dict[str, float]
    re_predict: dict[str, float]

    @property
    def times_faster(self) -> float:
        """How many times as long retraining took."""
        return self.retraining_seconds / self.seconds

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"times_faster": self.times_faster}


@dataclass(frozen=True, eq=False, repr=False)
class Demo:
    """The data with its foreign tastes, the models, what they forgot and how they compare.

    `erasures` and `unlearners` are of the foreign tastes, by name: "unlearned", by a live model, and "retrained".
    `topic` is the foreign one of the user whose `lists` show it best.
    """

    dataset: str
    data: ForeignTaste
    original: MF
    training_seconds: float
    account: AccountErasure
    erasures: dict[str, Erasure[Any]]
    unlearners: dict[str, LiveModel[MF] | Retrain]
    report: Report
    topic: str
    lists: list[Listing]

    @property
    def remain(self) -> Interactions:
        return self.erasures["retrained"].remain

    @property
    def seconds(self) -> dict[str, float]:
        """What forgetting the foreign tastes took, either way."""
        return {name: erasure.cost.seconds for name, erasure in self.erasures.items()}


def _unreported(_: str) -> AbstractContextManager[None]:
    return nullcontext()


def run_demo(rng: np.random.Generator, *, dataset: str = DATASET, stage: Stage = _unreported) -> Demo:
    """Trains on an embedded data set with foreign tastes in it, forgets an account, then the tastes, and compares.

    `stage` is entered with the name of each part of the work, and gives a function that takes its progress, or None.
    """
    with stage("Making the data"):
        data = foreign_taste(rng, dataset=dataset)
    with stage("Choosing w0 and l2"):
        objective = choose_objective(data.full, dim=DIM, rng=rng).objective
    untrained = MF.sized_for(data.full, dim=DIM, objective=objective, rng=rng)
    with stage("Training the original") as progress:
        began = time.perf_counter()
        original = fit(untrained, data.full, trainer=TRAINER, progress=progress).model
        training_seconds = time.perf_counter() - began
    account = _forget_account(original, data, rng, stage)
    live, retrain = LiveModel(original, data.full), Retrain(rng, TRAINER)
    with stage("Forgetting what was not theirs"):
        unlearned = live.forget(data.requests)
    with stage("Retraining without it, to compare with") as progress:
        retrained = retrain.forget(original, data.full, data.requests, progress=progress)
    models = {"original": original, "unlearned": live.model, "retrained": retrained.model}
    remain, forget = retrained.remain, retrained.change
    with stage("Comparing"):
        report = compare(models, remain=remain, test=data.test, forget=forget, reference="retrained")
        user, lists = _example_lists(models, data, remain)
    return Demo(
        dataset=dataset,
        data=data,
        original=original,
        training_seconds=training_seconds,
        account=account,
        erasures={"unlearned": unlearned, "retrained": retrained},
        unlearners={"unlearned": live, "retrained": retrain},
        report=report,
        topic=data.topic_of_user[user],
        lists=lists,
    )


def _forget_account(
    original: MF, data: ForeignTaste, rng: np.random.Generator, stage: Stage
) -> AccountErasure:
    full, requests = data.full, Requests.of([{"user": data.account}])
    with stage("Forgetting one account"):
        began = time.perf_counter()
        live = LiveModel(original, full)
        opening = time.perf_counter() - began
        erasure, unlearned = live.forget(requests), live.model
        others = rng.choice(live.remain.user_vocabulary.ids.drop_nulls(), N_ACCOUNTS - 1, replace=False)
        more = [live.forget([{"user": user}]).cost.seconds for user in others]
        seconds = [erasure.cost.seconds, *more]
    with stage("Retraining without the account, to compare with") as progress:
        retrained = Retrain(rng, TRAINER).forget(original, full, requests, progress=progress)
    models = {"original": original, "unlearned": unlearned, "retrained": retrained.model}
    by_user = retrained.remain.by(Side.USERS)
    others = by_user.occupied
    others = np.sort(rng.choice(others, min(MAX_OTHERS, len(others)), replace=False))
    lists = {name: top_k(model, others, LIST_LENGTH, exclude=by_user) for name, model in models.items()}
    return AccountErasure(
        n_interactions=len(erasure.change),
        n_accounts=len(seconds),
        seconds=statistics.median(seconds),
        opening_seconds=opening,
        retraining_seconds=retrained.cost.seconds,
        retraining_passes=retrained.cost.passes,
        rows_visited=erasure.cost.rows_visited,
        n_rows=full.n_users + full.n_items,
        n_others=len(others),
        rbo={name: float(rbo(each, lists["retrained"], LIST_LENGTH).mean()) for name, each in lists.items()},
        re_predict={name: re_predict(model, erasure.change) for name, model in models.items()},
    )


def _example_lists(
    models: dict[str, MF], data: ForeignTaste, remain: Interactions
) -> tuple[int, list[Listing]]:
    """The user whose list of the original shows most of the foreign taste, and that user's lists."""
    users = np.array(list(data.topic_of_user))
    names = data.full.item_vocabulary.ids.to_list()
    lists = {
        name: top_k(model, users, LIST_LENGTH, exclude=remain.by(Side.USERS))
        for name, model in models.items()
    }
    marked = {
        name: np.array(
            [
                [topic_of(names[i]) == topic for i in row]
                for topic, row in zip(data.topic_of_user.values(), rows, strict=True)
            ]
        )
        for name, rows in lists.items()
    }
    place = int(np.argmax(marked["original"].sum(1)))
    shown = [
        Listing(
            name, [Line(names[i], bool(m)) for i, m in zip(rows[place], marked[name][place], strict=True)]
        )
        for name, rows in lists.items()
    ]
    return int(users[place]), shown
