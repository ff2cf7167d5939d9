"""A version without the empty rows that wholly forgotten ids left: the one place where rows renumber."""

from __future__ import annotations

from dataclasses import replace

from alteraser.data.interactions import Side, Vocabulary
from alteraser.versions.version import Version


def compact(version: Version) -> Version:
    """The same model without tombstones; itself if it has none.

    The rows that stay keep their order and their vectors. A tombstone's row is an empty one, and what follows from that
    is for the model to say (`keep_rows`): scores, loss and row problems stay what they were.
    """
    vocabularies = {Side.USERS: version.user_vocabulary, Side.ITEMS: version.item_vocabulary}
    if not any(vocabulary.n_forgotten for vocabulary in vocabularies.values()):
        return version
    kept = {side: each.ids.is_not_null().to_numpy() for side, each in vocabularies.items()}
    return replace(
        version,
        model=version.model.keep_rows(kept),
        user_vocabulary=Vocabulary(version.user_vocabulary.ids.drop_nulls()),
        item_vocabulary=Vocabulary(version.item_vocabulary.ids.drop_nulls()),
    )
