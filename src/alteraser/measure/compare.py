"""`compare`: any number of models side by side, for the forgetting users and for the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alteraser.data.changes import Change
from alteraser.data.csr import CSR
from alteraser.data.interactions import Interactions, Side
from alteraser.errors import MismatchError, SettingError
from alteraser.measure import ranking
from alteraser.measure.agreement import rbo, rbo_extrapolated, re_predict
from alteraser.models.base import Factored, Recommender

KS = (10, 20, 50)
FORGETTING, OTHERS, EVERYONE = "forgetting", "others", "everyone"


@dataclass(frozen=True, eq=False)
class Report:
    """Figures by model, by group of users, by measure; a measure of lists has one figure for each k.

    `values[model][group][measure]` is {k: figure}; re-predict scores stand in `re_predict[model]`, losses on the
    remaining data in `loss[model]` where the model is `Factored`, and so has one.
    """

    values: dict[str, dict[str, dict[str, dict[int, float]]]]
    re_predict: dict[str, float]
    loss: dict[str, float]
    n_users: dict[str, int]
    reference: str | None
    ks: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON: {"models": {name: {"re_predict", "loss", group: {measure: {k: figure}}}}, …}."""
        models: dict[str, Any] = {}
        for name, groups in self.values.items():
            models[name] = {
                "re_predict": self.re_predict.get(name),
                "loss": self.loss.get(name),
                **{
                    group: {
                        measure: {str(k): v for k, v in by_k.items()} for measure, by_k in measures.items()
                    }
                    for group, measures in groups.items()
                },
            }
        return {"reference": self.reference, "ks": list(self.ks), "n_users": self.n_users, "models": models}


def compare(
    models: Mapping[str, Recommender],
    *,
    remain: Interactions,
    test: Interactions | None = None,
    forget: Interactions | Change | None = None,
    reference: str | None = None,
    ks: Sequence[int] = KS,
) -> Report:
    """The models side by side: accuracy on `test`, agreement with `reference`, memory of `forget`.

    Lists leave out what the user has in `remain` (`rbo`, and all accuracy), but for `rbo_training`, whose lists leave
    out nothing. A wholly forgotten item is in no list. Without `forget` there is one group, everyone. Users without
    test items count in no accuracy figure. What an erasure changed serves as `forget`.
    """
    if not models:
        raise SettingError("No model came; at least one is wanted.")
    if not ks or min(ks) < 1:
        raise SettingError(f"ks is {tuple(ks)}; whole numbers from 1 up are wanted.")
    if reference is not None and reference not in models:
        raise SettingError(f"The reference {reference!r} is not among the models ({', '.join(models)}).")
    for model in models.values():
        model.check_belongs(remain)
    for what, other in (("test", test), ("forget", forget)):
        if isinstance(other, Interactions):
            check_rows(remain, other, what)
    groups = _groups(remain, forget)
    seen, gone = remain.by(Side.USERS), remain.item_vocabulary.tombstones
    relevant = test.by(Side.USERS) if test is not None else None
    values: dict[str, dict[str, dict[str, dict[int, float]]]] = {name: {} for name in models}
    for group, users in groups.items():
        lists, bare = (
            {
                name: ranking.top_k(m, users, max(ks), exclude=out, unavailable=gone)
                for name, m in models.items()
            }
            for out in (seen, None)
        )
        for name, model in models.items():
            figures = {"coverage": {k: ranking.coverage(lists[name], model.n_items, k) for k in ks}}
            if reference is not None:
                figures |= _agreement(lists[name], lists[reference], bare[name], bare[reference], ks)
            if relevant is not None:
                figures |= accuracy(lists[name], users, relevant, ks)
            values[name][group] = figures
    return Report(
        values=values,
        re_predict={name: re_predict(model, forget) for name, model in models.items()}
        if forget is not None and len(forget)
        else {},
        loss={name: model.loss(remain) for name, model in models.items() if isinstance(model, Factored)},
        n_users={group: len(users) for group, users in groups.items()},
        reference=reference,
        ks=tuple(ks),
    )


def check_rows(remain: Interactions, other: Interactions, what: str) -> None:
    """Raises unless both number the same users and items alike; an id may be forgotten in one of them."""
    for side in Side:
        mine, theirs = remain.vocabulary(side).ids, other.vocabulary(side).ids
        if len(mine) != len(theirs) or mine.dtype != theirs.dtype or (mine != theirs).any():
            raise MismatchError(
                f"`{what}` does not number its {side.value} as the remaining data does. Put it on the same rows first: "
                f"{what}.known_to(remain.user_vocabulary, remain.item_vocabulary)[0]."
            )


def _groups(remain: Interactions, forget: Interactions | Change | None) -> dict[str, NDArray[np.int64]]:
    """The users to judge, those without any remaining interaction left out: nobody recommends to them."""
    users = remain.by(Side.USERS).occupied
    if forget is None:
        return {EVERYONE: users}
    asked = np.isin(users, forget.users)
    return {
        name: group for name, group in ((FORGETTING, users[asked]), (OTHERS, users[~asked])) if len(group)
    }


def _agreement(
    own: ranking.Lists,
    wanted: ranking.Lists,
    bare: ranking.Lists,
    bare_wanted: ranking.Lists,
    ks: Sequence[int],
) -> dict[str, dict[int, float]]:
    return {
        "rbo": {k: float(rbo(own, wanted, k).mean()) for k in ks},
        "rbo_extrapolated": {k: float(rbo_extrapolated(own, wanted, k).mean()) for k in ks},
        "rbo_training": {k: float(rbo(bare, bare_wanted, k).mean()) for k in ks},
    }


def accuracy(
    lists: ranking.Lists, users: NDArray[np.int64], relevant: CSR, ks: Sequence[int]
) -> dict[str, dict[int, float]]:
    """Each measure of accuracy at each k, the mean over the users who have relevant items; nothing if nobody has."""
    judged = relevant.counts[users] > 0
    if not judged.any():
        return {}
    users, lists = users[judged], lists[judged]
    found, n_relevant = ranking.hits(lists, users, relevant), relevant.counts[users]
    return {
        "recall": {k: float(ranking.recall(found, n_relevant, k).mean()) for k in ks},
        "ndcg": {k: float(ranking.ndcg(found, n_relevant, k).mean()) for k in ks},
        "hit_rate": {k: float(ranking.hit_rate(found, k).mean()) for k in ks},
        "mrr": {k: float(ranking.mrr(found, k).mean()) for k in ks},
    }
