"""`evaluate`: how good a model's lists are, beside recommenders so simple that a figure can be judged by theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions, Side
from alteraser.errors import MismatchError, SettingError
from alteraser.measure import ranking
from alteraser.measure.baselines import ItemKNN, MostPopular
from alteraser.measure.compare import KS, accuracy, check_rows
from alteraser.models.base import Recommender

MODEL, MOST_POPULAR, ITEM_KNN = "model", "most popular", "item kNN"
# The standard error of an NDCG over so many users is a few thousandths; more users make it slower, hardly sharper.
MAX_USERS = 10_000


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Figures by recommender ("model" and each baseline), measure and k: `values[name][measure][k]`.

    They are of `n_judged` users, drawn at random where there are more: `n_users` have test interactions and something
    in the training data. `n_test` test interactions were there to be found; `n_seen` more were in the training data,
    too, and were left out.
    """

    values: dict[str, dict[str, dict[int, float]]]
    n_judged: int
    n_users: int
    n_test: int
    n_seen: int
    ks: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON: {"models": {name: {measure: {k: figure}}}, …}."""
        return {
            "ks": list(self.ks),
            "judged_users": self.n_judged,
            "test_users": self.n_users,
            "test_interactions": self.n_test,
            "seen_in_training": self.n_seen,
            "models": {
                name: {measure: {str(k): v for k, v in by_k.items()} for measure, by_k in measures.items()}
                for name, measures in self.values.items()
            },
        }


def evaluate(
    model: Recommender,
    data: Interactions,
    test: Interactions,
    *,
    baselines: Mapping[str, Recommender] | None = None,
    ks: Sequence[int] = KS,
    max_users: int = MAX_USERS,
    rng: np.random.Generator | None = None,
) -> Evaluation:
    """How well the model, trained on `data`, finds what users have in `test`; lists leave out what they have in `data`.

    Beside it stand the baselines: most popular and item-kNN, made of `data`, unless others are given. Coverage is the
    share of all items that is in the judged users' lists. If more than `max_users` have something to be found, `rng`
    draws as many of them. Test interactions that are also in `data` can be in no list and are left out; if they are the
    most, the test part was not held out, and nothing is measured.
    """
    _check(model, data, test, ks, max_users)
    unseen, n_seen = _unseen(data, test)
    relevant, known = unseen.by(Side.USERS), data.by(Side.USERS)
    eligible = relevant.occupied[known.counts[relevant.occupied] > 0]
    if len(eligible) == 0:
        raise MismatchError(
            f"None of the {relevant.n_entries} test interactions is of a user with training data. Give the held-out "
            f"part of the same data, with the same ids."
        )
    users = _sample(eligible, max_users, rng)
    if baselines is None:
        baselines = {MOST_POPULAR: MostPopular.of(data), ITEM_KNN: ItemKNN.of(data)}
    values = {}
    for name, each in {MODEL: model, **baselines}.items():
        each.check_belongs(data)
        gone = data.item_vocabulary.tombstones
        lists = ranking.top_k(each, users, max(ks), exclude=known, unavailable=gone)
        coverage = {"coverage": {k: ranking.coverage(lists, data.n_items, k) for k in ks}}
        values[name] = accuracy(lists, users, relevant, ks) | coverage
    n_test = int(relevant.counts[eligible].sum())
    return Evaluation(values, len(users), len(eligible), n_test, n_seen, tuple(ks))


def _check(
    model: Recommender, data: Interactions, test: Interactions, ks: Sequence[int], max_users: int
) -> None:
    if not ks or min(ks) < 1:
        raise SettingError(f"ks is {tuple(ks)}; whole numbers from 1 up are wanted.")
    if max_users < 1:
        raise SettingError(f"max_users is {max_users}; a whole number from 1 up is wanted.")
    model.check_belongs(data)
    check_rows(data, test, "test")


def _unseen(data: Interactions, test: Interactions) -> tuple[Interactions, int]:
    """The test interactions that are not in the training data, and how many pairs are."""
    tested = test.by(Side.USERS)
    seen = data.by(Side.USERS).weights_of(tested.owners(), tested.columns, n_columns=data.n_items).present
    n_seen = int(seen.sum())
    if 2 * n_seen > len(seen):
        raise MismatchError(
            f"{n_seen} of {len(seen)} test interactions are in the training data too: what a model was trained on says "
            f"nothing of how good it is. Train on the other part alone (`alteraser data split`), or have a part held "
            f"out and a model like this one trained without it (--holdout 0.2)."
        )
    if not n_seen:
        return test, 0
    keys = tested.pair_keys(data.n_items)[seen]
    return test.without(np.isin(test.users.astype(np.int64) * data.n_items + test.items, keys)), n_seen


def _sample(users: NDArray[np.int64], max_users: int, rng: np.random.Generator | None) -> NDArray[np.int64]:
    if len(users) <= max_users:
        return users
    if rng is None:
        raise SettingError(
            f"{len(users)} users could be judged and max_users is {max_users}, so that some are drawn at random. Pass "
            f"rng=np.random.default_rng(…), or a greater max_users."
        )
    return np.sort(rng.choice(users, max_users, replace=False))
