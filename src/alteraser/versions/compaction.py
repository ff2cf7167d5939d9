"""A version without the empty rows that wholly forgotten ids left: the one place where rows renumber."""

from __future__ import annotations

from dataclasses import replace

import torch

from alteraser.data.interactions import Side, Vocabulary
from alteraser.versions.version import Version


def compact(version: Version) -> Version:
    """The same model without tombstones; itself if it has none.

    The rows that stay keep their order and their vectors, and since a tombstone's row is zero, scores, loss and row
    problems stay what they were. For that, a constant of the penalty that followed the number of rows is written out
    with the number there was (w0 times the rows, in full), while one of two digits stays as it is.
    """
    vocabularies = {Side.USERS: version.user_vocabulary, Side.ITEMS: version.item_vocabulary}
    if not any(vocabulary.n_forgotten for vocabulary in vocabularies.values()):
        return version
    model = version.model
    kept = {side: torch.tensor(each.ids.is_not_null().to_list()) for side, each in vocabularies.items()}
    tables = {side.value: model.table(side)[rows] for side, rows in kept.items()}
    objective = replace(
        model.objective,
        c_users=model.objective.penalty_constant(Side.USERS, model.n_items),
        c_items=model.objective.penalty_constant(Side.ITEMS, model.n_users),
    )
    return replace(
        version,
        model=replace(model.with_parameters({**model.parameters(), **tables}), objective=objective),
        user_vocabulary=Vocabulary(version.user_vocabulary.ids.drop_nulls()),
        item_vocabulary=Vocabulary(version.item_vocabulary.ids.drop_nulls()),
    )
