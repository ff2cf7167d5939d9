"""One pass over all rows of ml-1m against one iteration of `implicit` on the same objective, and the machine's limit.

Both start from the same factors and both losses are computed by the same function. An exact pass stands against
Cholesky, a pass of conjugate gradients against implicit's three steps of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from alteraser.data.datasets import load_dataset
from alteraser.data.interactions import Interactions, Side
from alteraser.kernels.jit import n_threads
from alteraser.kernels.rows import PIVOTS
from alteraser.kernels.tiles import TILE_COLUMNS, TILE_ROWS
from alteraser.models.mf import MF
from alteraser.optim.newton import Newton, ah_newton, cg_newton
from alteraser.sweep.sweep import Rows, Sweeper
from benchmarks.rivals import OBJECTIVE, Implicit
from benchmarks.timing import in_turn, median_ratio

LIMITS = {("exact", 64): 0.25, ("exact", 128): 0.35, ("cg", 64): 0.8, ("cg", 128): 0.8}
RATE_LIMIT = 0.35
WHOLE = "pass, whole matrices"
"""The operations of a pass that would compute both halves of the symmetric matrices of rows."""
KINDS = {"exact": ah_newton, "cg": cg_newton}


def measure(data_dir: str | None, *, dims: tuple[int, ...] = (64, 128), rounds: int = 9) -> dict[str, Any]:
    """Seconds of one pass of each in turn, the median ratio, both losses over some passes, and the rate reached."""
    data = load_dataset("ml-1m", data_dir=data_dir)
    figures = [_at(data, kind, dim, rounds) for kind in KINDS for dim in dims]
    return {"figures": figures, "threads": n_threads()}


def _at(data: Interactions, kind: str, dim: int, rounds: int) -> dict[str, Any]:
    start = MF.sized_for(data, dim=dim, objective=OBJECTIVE, rng=np.random.default_rng(0))
    # implicit runs its own threads, each calling BLAS: one BLAS thread each, or they fight.
    with threadpool_limits(1, user_api="blas"):
        theirs = Implicit(data, start, cg=kind == "cg")
        ours = _Ours(data, start, KINDS[kind])
        losses: dict[str, list[float]] = {"alteraser": [start.loss(data)], "implicit": [start.loss(data)]}
        for _ in range(5):
            ours.iterate()
            theirs.iterate()
            losses["alteraser"].append(ours.model.loss(data))
            losses["implicit"].append(theirs.model.loss(data))
        apart = [(a - b) / b for a, b in zip(losses["alteraser"], losses["implicit"], strict=True)]
        if kind == "exact":
            assert max(map(abs, apart)) < 1e-3, f"the losses differ by {max(map(abs, apart)):.2e}"
        # Near the end conjugate gradients would stop sooner: ours always starts from the second pass's model.
        tasks: dict[str, Callable[[], object]] = {"alteraser": ours.second, "implicit": theirs.iterate}
        seconds = in_turn(tasks, rounds=rounds)
    figure = {
        "kind": kind,
        "dim": dim,
        "seconds": seconds,
        "ratio": median_ratio(seconds, "alteraser", "implicit"),
        "limit": LIMITS[kind, dim],
        "loss": losses,
        "loss_no_higher": max(apart) <= 1e-6,
    }
    return figure | _rate(data, ours, dim, rounds) if kind == "exact" else figure


def _rate(data: Interactions, ours: _Ours, dim: int, rounds: int) -> dict[str, Any]:
    """The arithmetic of an exact pass a second over that of a large matrix product, measured in turn."""
    left, right = torch.rand(3000, 3000), torch.rand(3000, 3000)
    torch.set_num_threads(n_threads())
    seconds = in_turn({"pass": ours.second, "product": lambda: left @ right}, rounds=rounds)
    entries, rows = data.by(Side.USERS).n_entries, len(Rows.occupied(data))
    work = {
        "pass": operations_done(2 * entries, rows, dim),
        WHOLE: 2 * 2 * entries * dim**2 + rows * dim**3 / 3,
        "product": 2 * 3000**3,
    }
    ratio = work["pass"] / work["product"] / median_ratio(seconds, "pass", "product")
    return {"rate": ratio, "rate_limit": RATE_LIMIT, "rate_seconds": seconds, "operations": work}


def operations_done(entries: int, rows: int, dim: int) -> int:
    """The multiplications and additions of the row kernels, `entries` and `rows` being those of both sides.

    Row matrices are symmetric: only the tiles that touch their upper triangle are computed, as loops over them do in
    `kernels/rows.py`. What padding adds beyond the tiles' own is left out, and so are the Gram matrices.
    """
    tile = 2 * TILE_ROWS * TILE_COLUMNS
    of_entry = tile * _tiles(0, dim) + 3 * dim  # its vector weighted, and added to the right side
    of_row = 2 * dim**2  # both substitutions
    for first in range(0, dim, PIVOTS):
        last = min(first + PIVOTS, dim)
        pivots = last - first
        of_row += (2 * (pivots * (pivots - 1) // 2) + pivots) * (dim - first)
        of_row += pivots * tile * _tiles(last, dim)
    return entries * of_entry + rows * of_row


def _tiles(first: int, dim: int) -> int:
    """How many tiles of a matrix touch its upper triangle, from a row on."""
    return sum(-(-(dim - row + row % TILE_COLUMNS) // TILE_COLUMNS) for row in range(first, dim, TILE_ROWS))


class _Ours:
    def __init__(self, data: Interactions, start: MF, solver: Newton) -> None:
        self.data, self.model = data, start
        self.sweeper, self.rows = Sweeper(solver), Rows.occupied(data)
        self.after_first = self.sweeper.sweep(start, data, self.rows)

    def iterate(self) -> None:
        self.model = self.sweeper.sweep(self.model, self.data, self.rows)

    def second(self) -> None:
        """The second pass, again and again."""
        self.sweeper.sweep(self.after_first, self.data, self.rows)
