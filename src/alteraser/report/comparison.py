"""A `Report` of `compare` as sections of a page."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from alteraser.data.csr import CSR
from alteraser.data.interactions import Interactions, Side
from alteraser.measure.agreement import rbo
from alteraser.measure.compare import FORGETTING, Report
from alteraser.measure.ranking import top_k
from alteraser.models.base import Recommender
from alteraser.report import plots
from alteraser.report.html import Figure, Line, Listing, Section, page
from alteraser.report.tables import GROUPS, NAMES, Table, details, summary

LIST_LENGTH = 10
# Of so many users the one whose list changed most is shown; more would take longer than the rest of the page.
CANDIDATES = 2000
_WIDE = 24  # letters in a column of settings
# What a page says of each measure that it draws, which direction is good included.
RBO = (
    "RBO",
    "How alike two models' lists are, the first places counting most. 1 is the same list; more is better.",
)
RE_PREDICT = (
    "Re-predict score",
    "The mean score a model gives to what was forgotten. Well forgotten is as low as in a model that never saw it.",
)
ACCURACY = (
    "NDCG, recall",
    "How well lists find what users have in the held-out part. From 0 to 1; more is better.",
)


def comparison_page(
    report: Report,
    models: Mapping[str, Recommender],
    *,
    full: Interactions,
    remain: Interactions,
    forget: Interactions | None,
    of_models: Mapping[str, Mapping[str, str]],
    date: str,
) -> str:
    """A page of models side by side: how much was forgotten, one user's lists, all figures, and where they come from.

    `full` is the data before anything was forgotten; `of_models` says of each model where it comes from.
    """
    shown = example(models, remain, forget=forget, reference=report.reference)
    about = {
        "Date": date,
        "Data": f"{full.n_users:,} users, {full.n_items:,} items, {len(full):,} interactions",
        "SHA-256 of the data": full.digest(),
    }
    told = [_forgotten(full, forget)] if forget is not None else []
    told += [shown] if shown is not None else []
    lead = f"Models: {', '.join(models)}. Users judged: {sum(report.n_users.values()):,}."
    return page("Models side by side", lead, [*told, *sections(report), provenance(of_models, about)])


def _forgotten(full: Interactions, forget: Interactions) -> Section:
    """How much was forgotten, and by how many."""
    before, gone = full.by(Side.USERS), forget.by(Side.USERS)
    users = gone.occupied
    whole = int((gone.counts[users] == before.counts[users]).sum())
    return Section(
        "What was forgotten",
        figures=[
            Figure(f"{gone.n_entries:,}", f"of {before.n_entries:,} interactions ({_share(gone, before)})"),
            Figure(f"{len(users):,}", f"of {len(before.occupied):,} users had something forgotten"),
            Figure(f"{whole:,}", "of them had everything forgotten, and are gone"),
        ],
    )


def _share(part: CSR, whole: CSR) -> str:
    share = part.n_entries / whole.n_entries
    return f"{share:.1%}" if share >= 0.001 else "less than 0.1%"


def sections(report: Report, *, seconds: Mapping[str, float] | None = None) -> list[Section]:
    """What the models remember, how they agree, how accurate they are and what they took: plots first, then tables."""
    k, drawn = report.ks[0], []
    if report.re_predict:
        drawn.append(plots.bars("Re-predict score of the forgotten pairs", report.re_predict))
    group = FORGETTING if FORGETTING in report.n_users else next(iter(report.n_users))
    for measure in ("rbo", "ndcg", "recall"):
        values = {
            name: groups[group][measure][k]
            for name, groups in report.values.items()
            if measure in groups[group]
        }
        if values:
            against = f" with {report.reference}" if measure == "rbo" else ""
            drawn.append(plots.bars(f"{NAMES[measure]}@{k}{against}, {GROUPS[group]}", values))
    if seconds:
        drawn.append(plots.bars("Seconds to forget", seconds, unit=" s", decimals=3))
    return [
        Section(
            "Side by side",
            terms=_terms(report),
            plots=drawn,
            tables=[summary(report, seconds=seconds)],
        ),
        *(
            Section(
                f"All figures: {GROUPS[group]} ({n_users:,})", tables=[details(report, group)], folded=True
            )
            for group, n_users in report.n_users.items()
        ),
    ]


def _terms(report: Report) -> list[tuple[str, str]]:
    """A line for each measure that the report has."""
    measures = {name for groups in report.values.values() for each in groups.values() for name in each}
    shown = {"re_predict": (RE_PREDICT, bool(report.re_predict))}
    shown |= {"rbo": (RBO, "rbo" in measures), "ndcg": (ACCURACY, "ndcg" in measures)}
    return [term for term, there in shown.values() if there]


def provenance(of_models: Mapping[str, Mapping[str, str]], of_page: Mapping[str, str]) -> Section:
    """Where the figures come from: of the page as a whole, and of each model.

    What is too long for a column beside others, as a digest, has a row of its own.
    """
    names = dict.fromkeys(name for each in of_models.values() for name in each)
    long = [name for name in names if any(len(each.get(name, "")) > _WIDE for each in of_models.values())]
    alone = tuple(
        (f"{model}: {name}", each[name]) for name in long for model, each in of_models.items() if name in each
    )
    rows = tuple(
        (name, *(each.get(name, "") for each in of_models.values())) for name in names if name not in long
    )
    return Section(
        "Settings, date and digests",
        tables=[
            Table("Page", ("", ""), (*of_page.items(), *alone)),
            Table("Models", ("", *of_models), rows),
        ],
        folded=True,
    )


def example(
    models: Mapping[str, Recommender],
    remain: Interactions,
    *,
    forget: Interactions | None = None,
    reference: str | None = None,
) -> Section | None:
    """The lists of the user for whom the first model and the reference, or else the last model, differ most.

    It is one of those who forgot something, if any of them is left. The user's id is not shown. With a single model, or
    nobody to recommend to, there is nothing to show.
    """
    by_user = remain.by(Side.USERS)
    users = by_user.occupied
    asked = users[:0] if forget is None else users[np.isin(users, forget.users)]
    users = (asked if len(asked) else users)[:CANDIDATES]
    if len(models) < 2 or len(users) == 0:
        return None
    gone = remain.item_vocabulary.tombstones
    lists = {
        name: top_k(model, users, LIST_LENGTH, exclude=by_user, unavailable=gone)
        for name, model in models.items()
    }
    first, *_, last = models
    wanted = reference or last
    changed = lists[last if first == wanted else first]
    user = int(np.argmin(rbo(changed, lists[wanted], LIST_LENGTH)))
    ids, known = remain.item_vocabulary.ids, set(lists[wanted][user].tolist())
    who = "who had something forgotten" if len(asked) else "in the data"
    return Section(
        "One user's list",
        text=f"Of {len(users):,} users {who}, the one for whom the models differ most; whose it is, is not said. "
        f"What is not in the list of {wanted} is marked.",
        lists=[
            Listing(name, [Line(str(ids[i]), i not in known) for i in rows[user].tolist() if i >= 0])
            for name, rows in lists.items()
        ],
    )
