"""A stored model without the empty rows that wholly forgotten ids left: the one place where rows renumber."""

from __future__ import annotations

from dataclasses import replace

from alteraser.data.interactions import Side, Vocabulary
from alteraser.models.checkpoint import StoredModel


def compact(stored: StoredModel) -> StoredModel:
    """The same model without tombstones; itself if it has none.

    The rows that stay keep their order and their vectors. A tombstone's row is an empty one, and what follows from that
    is for the model to say (`keep_rows`): scores, loss and row problems stay what they were.
    """
    vocabularies = {Side.USERS: stored.user_vocabulary, Side.ITEMS: stored.item_vocabulary}
    if not any(vocabulary.n_forgotten for vocabulary in vocabularies.values()):
        return stored
    kept = {side: each.ids.is_not_null().to_numpy() for side, each in vocabularies.items()}
    return replace(
        stored,
        model=stored.model.keep_rows(kept),
        user_vocabulary=Vocabulary(stored.user_vocabulary.ids.drop_nulls()),
        item_vocabulary=Vocabulary(stored.item_vocabulary.ids.drop_nulls()),
    )
