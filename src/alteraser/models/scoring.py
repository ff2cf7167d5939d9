"""A stored model of a built-in kind as plain arrays: it scores and compares rows, for which torch is not needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from alteraser.data.interactions import Side
from alteraser.errors import ModelFileError

TENSOR_NAMES = {"mf": {"users", "items"}, "enmf": {"users", "items", "h"}}


@dataclass(frozen=True, eq=False, repr=False)
class ScoringTables:
    """The vectors of users and items, and what each dimension weighs in a score."""

    users: NDArray[Any]
    items: NDArray[Any]
    h: NDArray[Any]

    @classmethod
    def of(cls, kind: str, tensors: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]) -> Self:
        """Those of a model of that kind; raises unless the tensors are what its class would take."""
        dim = settings["dim"]
        whole = set(tensors) == TENSOR_NAMES[kind] and len({each.dtype for each in tensors.values()}) == 1
        if not whole or any(
            each.shape[-1] != dim or not np.isfinite(each).all() for each in tensors.values()
        ):
            raise ModelFileError(
                f"The tensors of the model {kind!r} are not those of its settings, or hold numbers that are not "
                f"finite. Take it from a backup."
            )
        h = tensors.get("h", np.ones(dim, tensors["users"].dtype))
        return cls(tensors["users"], tensors["items"], h * (np.sqrt(h.dtype.type(dim)) / np.linalg.norm(h)))

    @property
    def n_users(self) -> int:
        return len(self.users)

    @property
    def n_items(self) -> int:
        return len(self.items)

    def scores(self, users: NDArray[np.int64]) -> NDArray[Any]:
        """The scores of all items for some users, [len(users), n_items]."""
        found: NDArray[Any] = self.users[users] @ (self.items * self.h).T
        return found

    def pair_scores(self, users: NDArray[np.signedinteger], items: NDArray[np.signedinteger]) -> NDArray[Any]:
        """The score of each pair."""
        found: NDArray[Any] = (self.users[users] * (self.items * self.h)[items]).sum(1)
        return found

    def similarities(self, side: Side, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The cosine between the vectors of some rows of a side and of all; 0 where one is zero."""
        return cosines((self.users if side is Side.USERS else self.items) * self.h, rows)


def cosines(table: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """The cosine between some rows of a table and all of them, [len(rows), n]; 0 where one is zero."""
    directions = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12)
    found: NDArray[Any] = directions[rows] @ directions.T
    return found
