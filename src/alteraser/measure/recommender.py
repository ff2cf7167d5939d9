"""Recommending by the caller's own ids: lists as tables, for any model that scores items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alteraser.data.columns import id_texts, plain_ids
from alteraser.data.csr import CSR
from alteraser.data.interactions import Interactions, Side, Vocabulary
from alteraser.errors import MismatchError, SettingError
from alteraser.measure.ranking import BLOCK_SCORES, Scoring, best_columns, top_k
from alteraser.models.scoring import cosines

if TYPE_CHECKING:
    from torch import Tensor

Id = str | int | np.integer[Any]
Seen = Callable[[NDArray[np.int64]], CSR]
"""Given the rows of some users, what they have, on the rows of the model."""
Ids = Id | Sequence[Id] | NDArray[Any] | pl.Series


class PairScoring(Scoring, Protocol):
    """What recommending needs of a model: any `Recommender`, or the plain arrays of one."""

    def pair_scores(
        self, users: NDArray[np.signedinteger], items: NDArray[np.signedinteger]
    ) -> Tensor | NDArray[Any]: ...


@runtime_checkable
class Comparing(Protocol):
    """A model that says itself how much alike the rows of a side are, as `Similar` does."""

    def similarities(self, side: Side, rows: NDArray[np.int64]) -> Tensor | NDArray[Any]: ...


@runtime_checkable
class Tabled(Protocol):
    """A model with a vector for each row of a side."""

    def table(self, side: Side) -> Tensor: ...


@dataclass(frozen=True, eq=False, repr=False)
class IdRecommender:
    """A model that recommends, asked by ids: one id or many in, one table out.

    Ids that were wholly forgotten are never shown. An id that the model does not know is an error, which names it by
    its place in `source`, never by itself.
    """

    model: PairScoring
    user_vocabulary: Vocabulary
    item_vocabulary: Vocabulary

    def __repr__(self) -> str:
        return f"IdRecommender({self.model!r})"

    def recommend(
        self,
        user_ids: Ids,
        k: int = 10,
        *,
        exclude: Interactions | Seen | None = None,
        allow: Ids | None = None,
        deny: Ids | None = None,
        source: str | None = None,
    ) -> pl.DataFrame:
        """The best k items of each user, best first: columns user_id, rank, item_id, score.

        What a user has in `exclude` is left out; it may be a function that is given the rows of the users. With
        `allow` no other items are shown, with `deny` not these; of both, ids that the model does not know are passed
        over.
        """
        k = _checked(k, len(self.item_vocabulary))
        users = self._rows(Side.USERS, user_ids, source)
        lists = top_k(
            self.model,
            users,
            k,
            exclude=self._known(exclude).by(Side.USERS)
            if isinstance(exclude, Interactions)
            else exclude and exclude(users),
            unavailable=self._unavailable(allow, deny),
        )
        place, rank = np.nonzero(lists >= 0)
        items = lists[place, rank]
        scores = np.asarray(self.model.pair_scores(users[place], items)).astype(np.float64)
        return pl.DataFrame(
            {
                "user_id": self.user_vocabulary.ids.gather(users[place]),
                "rank": rank + 1,
                "item_id": self.item_vocabulary.ids.gather(items),
                "score": scores,
            }
        )

    def similar_items(self, item_ids: Ids, k: int = 10, *, source: str | None = None) -> pl.DataFrame:
        """The k items most like each item by their vectors: columns item_id, rank, similar_item_id, similarity."""
        return self._similar(Side.ITEMS, item_ids, k, source)

    def similar_users(self, user_ids: Ids, k: int = 10, *, source: str | None = None) -> pl.DataFrame:
        """The k users most like each user by their vectors: columns user_id, rank, similar_user_id, similarity."""
        return self._similar(Side.USERS, user_ids, k, source)

    def _similar(self, side: Side, ids: Ids, k: int, source: str | None) -> pl.DataFrame:
        vocabulary = self._vocabulary(side)
        k = _checked(k, len(vocabulary))
        rows = self._rows(side, ids, source)
        columns, values = [], []
        size = max(1, BLOCK_SCORES // len(vocabulary))
        for start in range(0, len(rows), size):
            block = rows[start : start + size]
            likeness = _similarities(self.model, side, block)
            likeness[:, vocabulary.tombstones] = -np.inf
            likeness[np.arange(len(block)), block] = -np.inf
            best = best_columns(likeness, k)
            columns.append(best)
            values.append(np.take_along_axis(likeness, best.clip(0), 1).astype(np.float64))
        found = np.concatenate(columns)
        place, rank = np.nonzero(found >= 0)
        return pl.DataFrame(
            {
                f"{_word(side)}_id": vocabulary.ids.gather(rows[place]),
                "rank": rank + 1,
                f"similar_{_word(side)}_id": vocabulary.ids.gather(found[place, rank]),
                "similarity": np.concatenate(values)[place, rank],
            }
        )

    def known_items(self, item_ids: Ids) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """The rows of the items that the model knows, each once, their places in `item_ids`, and how many came."""
        rows = self.item_vocabulary.rows(_series(item_ids, "item"))
        places = np.flatnonzero(rows >= 0)
        known, first = np.unique(rows[places], return_index=True)
        if len(known) == 0:
            raise MismatchError(
                f"None of the {len(rows)} items is in the model. Known are those that were in the training data and "
                f"were not forgotten."
            )
        return known, places[first], len(rows)

    def _vocabulary(self, side: Side) -> Vocabulary:
        return self.user_vocabulary if side is Side.USERS else self.item_vocabulary

    def _rows(self, side: Side, ids: Ids, source: str | None) -> NDArray[np.int64]:
        asked, word = _series(ids, _word(side)), _word(side)
        if len(asked) == 0:
            raise SettingError(f"No {word} ids came; at least one is wanted.")
        rows = self._vocabulary(side).rows(asked)
        if (unknown := np.flatnonzero(rows < 0)).size:
            problem = f"The {word} is not in the model."
            if len(asked) > 1 or source:
                where = f" in {source}" if source else ""
                problem = (
                    f"{unknown.size} of {len(asked)} {word}s{where} are not in the model (the first in row "
                    f"{unknown[0] + 1})."
                )
            raise MismatchError(
                f"{problem} Known are those that were in the training data and were not forgotten."
            )
        return rows

    def _known(self, exclude: Interactions) -> Interactions:
        known, n_unknown = exclude.known_to(self.user_vocabulary, self.item_vocabulary)
        if len(known) == 0:
            raise MismatchError(
                f"None of the {n_unknown} interactions to exclude has a user and an item of the model. Give the data "
                f"the model was trained on, or leave exclude (--exclude) out."
            )
        return known

    def _unavailable(self, allow: Ids | None, deny: Ids | None) -> NDArray[np.int64]:
        """The items that nobody is shown."""
        hidden = np.zeros(len(self.item_vocabulary), dtype=bool)
        if allow is not None:
            asked = self.item_vocabulary.rows(_series(allow, "item"))
            if (asked < 0).all():
                raise MismatchError(
                    f"None of the {len(asked)} items to allow is in the model. Give ids of its items, or leave allow "
                    f"out."
                )
            hidden[:] = True
            hidden[asked[asked >= 0]] = False
        if deny is not None:
            asked = self.item_vocabulary.rows(_series(deny, "item"))
            hidden[asked[asked >= 0]] = True
        hidden[self.item_vocabulary.tombstones] = True
        return np.flatnonzero(hidden)


def _similarities(model: PairScoring, side: Side, rows: NDArray[np.int64]) -> NDArray[Any]:
    if isinstance(model, Comparing):
        return np.asarray(model.similarities(side, rows))
    if isinstance(model, Tabled):
        return cosines(np.asarray(model.table(side)), rows)
    raise SettingError(
        f"A {type(model).__name__} came, which has no vectors to compare. Give it `similarities` (`alteraser.Similar`)."
    )


def _word(side: Side) -> str:
    return "user" if side is Side.USERS else "item"


def _checked(k: int, most: int) -> int:
    if k < 1:
        raise SettingError(f"k is {k}; a whole number from 1 up is wanted.")
    return min(k, most)


def _series(ids: Ids, word: str) -> pl.Series:
    """One id or many as a column, checked as those of data are."""
    if ids is None or isinstance(ids, float):
        raise SettingError(f"{type(ids).__name__} came for the {word}s; one or many ids are wanted.")
    if isinstance(ids, str | int | np.integer):
        ids = [ids]
    return plain_ids(ids, word) if isinstance(ids, pl.Series) else id_texts(ids)
