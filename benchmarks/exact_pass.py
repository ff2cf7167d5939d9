"""One exact pass over all rows of ml-1m against one Cholesky iteration of `implicit` on the same objective.

implicit minimises alpha·L with w0 = 1/alpha, l2 = regularization/alpha and plain L2. Both start from the same
factors and both losses are computed by the same function, so that "the losses fall alike" is a comparison.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from threadpoolctl import threadpool_limits

from alteraser.data.datasets import load_dataset
from alteraser.data.interactions import Interactions, Side
from alteraser.kernels.jit import n_threads
from alteraser.models.mf import MF
from alteraser.models.objective import Objective
from alteraser.optim.newton import ah_newton
from alteraser.sweep.sweep import Rows, Sweeper
from benchmarks.timing import in_turn, median_ratio

ALPHA, REGULARIZATION = 10.0, 50.0
LIMIT = {64: 0.4}


def measure(data_dir: str | None, *, dims: tuple[int, ...] = (64, 128), rounds: int = 9) -> dict[str, Any]:
    """Seconds of one pass of each in turn, the median ratio, and both losses over some passes."""
    data = load_dataset("ml-1m", data_dir=data_dir)
    # implicit runs its own threads, each calling BLAS: one BLAS thread each, or they fight.
    with threadpool_limits(1, user_api="blas"):
        return {"figures": [_at(data, dim, rounds) for dim in dims], "threads": n_threads()}


def _at(data: Interactions, dim: int, rounds: int) -> dict[str, Any]:
    objective = Objective(w0=1 / ALPHA, l2=REGULARIZATION / ALPHA, l2_scaling=0.0)
    start = MF.sized_for(data, dim=dim, objective=objective, rng=np.random.default_rng(0))
    rows, sweeper = Rows.occupied(data), Sweeper(ah_newton)
    theirs = _Implicit(data, start)
    ours_loss, theirs_loss, model = [start.loss(data)], [theirs.loss(data)], start
    for _ in range(5):
        model = sweeper.sweep(model, data, rows)
        theirs.iterate()
        ours_loss.append(model.loss(data))
        theirs_loss.append(theirs.loss(data))
    apart = max(abs(a - b) / b for a, b in zip(ours_loss, theirs_loss, strict=True))
    assert apart < 1e-3, f"the losses differ by {apart:.2e}: not the same objective"
    seconds = in_turn(
        {"alteraser": lambda: sweeper.sweep(model, data, rows), "implicit": theirs.iterate}, rounds=rounds
    )
    return {
        "dim": dim,
        "seconds": seconds,
        "ratio": median_ratio(seconds, "alteraser", "implicit"),
        "limit": LIMIT.get(dim),
        "loss": {"alteraser": ours_loss, "implicit": theirs_loss},
    }


class _Implicit:
    """implicit's ALS on the same matrix, threads and start."""

    def __init__(self, data: Interactions, start: MF) -> None:
        from implicit.cpu.als import AlternatingLeastSquares

        self.start = start
        self.model = AlternatingLeastSquares(
            factors=start.dim,
            regularization=REGULARIZATION,
            alpha=ALPHA,
            use_native=True,
            use_cg=False,
            num_threads=n_threads(),
        )
        by_user = data.by(Side.USERS)
        shape = (data.n_users, data.n_items)
        self.by_user = sp.csr_matrix((by_user.weights * ALPHA, by_user.columns, by_user.starts), shape=shape)
        self.by_item = self.by_user.T.tocsr()
        self.users, self.items = start.users.numpy().copy(), start.items.numpy().copy()

    def iterate(self) -> None:
        """What one round of implicit's `fit` does."""
        for matrix, solved, fixed in (
            (self.by_user, self.users, self.items),
            (self.by_item, self.items, self.users),
        ):
            self.model.solver(matrix, solved, fixed, REGULARIZATION, num_threads=self.model.num_threads)

    def loss(self, data: Interactions) -> float:
        tables = {"users": torch.from_numpy(self.users.copy()), "items": torch.from_numpy(self.items.copy())}
        return self.start.with_parameters(tables).loss(data)
