"""implicit's ALS on the matrix, objective, threads and start that are ours.

implicit minimises alpha·L with w0 = 1/alpha, l2 = regularization/alpha and plain L2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

# At the top, so that its BLAS is loaded, and limited, before anything is measured.
from implicit.cpu.als import AlternatingLeastSquares
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions, Side
from alteraser.kernels.jit import n_threads
from alteraser.models.mf import MF
from alteraser.models.objective import Objective

ALPHA, REGULARIZATION = 10.0, 50.0
OBJECTIVE = Objective(w0=1 / ALPHA, l2=REGULARIZATION / ALPHA, l2_scaling=0.0)


class Implicit:
    """A model of implicit's, and its rounds."""

    def __init__(self, data: Interactions, start: MF, *, cg: bool) -> None:
        self.start = start
        self.als: Any = AlternatingLeastSquares(
            factors=start.dim,
            regularization=REGULARIZATION,
            alpha=ALPHA,
            use_native=True,
            use_cg=cg,
            num_threads=n_threads(),
        )
        self.als.user_factors, self.als.item_factors = start.users.numpy().copy(), start.items.numpy().copy()
        self.give(data)

    def give(self, data: Interactions) -> None:
        """The matrix to train on from now on."""
        by_user = data.by(Side.USERS)
        shape = (data.n_users, data.n_items)
        self.by_user = sp.csr_matrix((by_user.weights, by_user.columns, by_user.starts), shape=shape)
        self.by_item = self.by_user.T.tocsr()
        self._weighed = (self.by_user * np.float32(ALPHA), self.by_item * np.float32(ALPHA))

    def iterate(self) -> None:
        """What one round of implicit's `fit` does."""
        for matrix, solved, fixed in (
            (self._weighed[0], self.als.user_factors, self.als.item_factors),
            (self._weighed[1], self.als.item_factors, self.als.user_factors),
        ):
            self.als.solver(matrix, solved, fixed, REGULARIZATION, num_threads=self.als.num_threads)

    def partial_fit(self, users: NDArray[np.int64], items: NDArray[np.int64]) -> None:
        """Some users, then some items, by implicit's own means."""
        self.als.partial_fit_users(users, self.by_user[users])
        self.als.partial_fit_items(items, self.by_item[items])

    @property
    def model(self) -> MF:
        """The same vectors as a model of ours, so that one function computes every loss."""
        users, items = self.als.user_factors.copy(), self.als.item_factors.copy()
        return self.start.with_parameters(
            {"users": torch.from_numpy(users), "items": torch.from_numpy(items)}
        )
