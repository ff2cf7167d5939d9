"""Recommenders that learn nothing but counts: what the figures of a model are to be judged by.

Unlike a model they hold what they were made of, who has what: they are for measuring, and are never written to a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from alteraser.data.interactions import Interactions, Side
from alteraser.errors import MismatchError, SettingError
from alteraser.models.base import Recommender

# Cosines held at a time while neighbours are looked for: some 200 MB, should all of them be above 0.
BLOCK_COSINES = 2**22
# Scores by popularity stay below it: below the smallest score that neighbours give, 1 over the number of users at
# least, and above rounding errors.
_FALLBACK_SCALE = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class _Baseline(Recommender):
    """What the baselines share: the popularity of items, and who they were made for."""

    popularity: NDArray[np.float64]  # [n_items], no two alike
    size: tuple[int, int]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_users} users, {self.n_items} items)"

    @property
    def n_users(self) -> int:
        return self.size[0]

    @property
    def n_items(self) -> int:
        return self.size[1]

    def check_belongs(self, data: Interactions) -> None:
        if (data.n_users, data.n_items) != self.size:
            raise MismatchError(
                f"The baseline has {self.n_users} users and {self.n_items} items, the data {data.n_users} and "
                f"{data.n_items}. Make it of this data."
            )


@final
@dataclass(frozen=True, eq=False, repr=False)
class MostPopular(_Baseline):
    """Recommends to everyone what most users have; of equals, the item with the lower row."""

    @classmethod
    def of(cls, data: Interactions) -> Self:
        """Made of who has what in `data`; weights do not count."""
        return cls(_popularity(data), (data.n_users, data.n_items))

    def scores(self, users: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(np.tile(self.popularity, (len(users), 1)))

    def pair_scores(self, users: NDArray[np.signedinteger], items: NDArray[np.signedinteger]) -> Tensor:
        del users
        return torch.from_numpy(self.popularity[items])


@final
@dataclass(frozen=True, eq=False, repr=False)
class ItemKNN(_Baseline):
    """Recommends what resembles the user's items: the sum of their cosines to an item, if they are its neighbours.

    The cosine of two items is how many users have both, over the geometric mean of how many have each. Items that no
    neighbour speaks for follow by popularity.
    """

    user_items: Any  # [n_users, n_items], 1 where a user has an item
    cosines: Any  # [n_items, n_items], of each item (column) to its neighbours (rows)

    @classmethod
    def of(cls, data: Interactions, *, n_neighbours: int = 100) -> Self:
        """Made of who has what in `data`, weights left out; an item counts the `n_neighbours` items nearest to it."""
        if n_neighbours < 1:
            raise SettingError(f"n_neighbours is {n_neighbours}; a whole number from 1 up is wanted.")
        by_user = data.by(Side.USERS)
        shape = (data.n_users, data.n_items)
        user_items = sp.csr_array((np.ones(by_user.n_entries), by_user.columns, by_user.starts), shape=shape)
        cosines = nearest_cosines(user_items, n_neighbours).T.tocsr()
        return cls(_popularity(data), shape, user_items, cosines)

    def scores(self, users: NDArray[np.int64]) -> Tensor:
        by_neighbours = (self.user_items[users] @ self.cosines).toarray()
        return torch.from_numpy(by_neighbours + self._fallback)

    def pair_scores(self, users: NDArray[np.signedinteger], items: NDArray[np.signedinteger]) -> Tensor:
        to_items = self.cosines.T.tocsr()[items]
        return torch.from_numpy(self.user_items[users].multiply(to_items).sum(axis=1) + self._fallback[items])

    @property
    def _fallback(self) -> NDArray[np.float64]:
        """Scores by popularity, so small that they only order items to which neighbours give the same."""
        fallback: NDArray[np.float64] = self.popularity * (_FALLBACK_SCALE / max(self.popularity.max(), 1.0))
        return fallback


def nearest_cosines(user_items: Any, n: int) -> Any:
    """Of each column, the `n` greatest cosines to other columns that are above 0, as rows of a sparse matrix."""
    columns = user_items.tocsc(copy=True)
    norms = np.sqrt(np.asarray(columns.multiply(columns).sum(axis=0)).ravel())
    columns.data /= np.repeat(norms, np.diff(columns.indptr))
    rows, others = columns.T.tocsr(), columns.tocsr()
    size = max(1, BLOCK_COSINES // max(user_items.shape[1], 1))
    kept = [
        _greatest(rows[start : start + size] @ others, n, first=start)
        for start in range(0, user_items.shape[1], size)
    ]
    return sp.vstack(kept, format="csr")


def _greatest(cosines: Any, n: int, *, first: int) -> Any:
    """The `n` greatest entries of each row, of equals those in lower columns, without the row's own column."""
    owners = np.repeat(np.arange(cosines.shape[0]), np.diff(cosines.indptr))
    others = cosines.indices != owners + first
    owners, columns, values = owners[others], cosines.indices[others], cosines.data[others]
    order = np.lexsort((columns, -values, owners))
    owners, columns, values = owners[order], columns[order], values[order]
    counts = np.bincount(owners, minlength=cosines.shape[0])
    place = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = place < n
    return sp.csr_array((values[kept], (owners[kept], columns[kept])), shape=cosines.shape)


def _popularity(data: Interactions) -> NDArray[np.float64]:
    """How many users have each item, plus less than a half that is greater for lower rows, so that none are alike."""
    counts = data.by(Side.ITEMS).counts
    popularity: NDArray[np.float64] = counts + 0.5 - 0.5 * (np.arange(len(counts)) + 1) / (len(counts) + 1)
    return popularity
