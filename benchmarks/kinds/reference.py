"""Where a request should lead: in double precision, from the original, by Newton's method over all rows together.

The reference of a request is the point next to the original at which the gradient of the loss on what remains is what
the original's was on all of the data: zero for an original at its optimum, whose reference is the optimum that remains,
and what it was short of for any other. Rows that lose their last interaction are zero, and so is their target.

Newton's equations are solved by MINRES, which needs no positive definite Hessian, with the inverse Hessians of the
original's rows as preconditioner. Where a full step does not come nearer, what the request has changed of the gradient
is removed in smaller parts, one after another.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from scipy.sparse.linalg import LinearOperator, minres
from threadpoolctl import threadpool_limits

from alteraser.data.interactions import Interactions, Side
from alteraser.models.mf import MF
from benchmarks.formula import Formula, Pairs
from benchmarks.kinds.hessian import Hessian

Floats = NDArray[np.float64]
SIDES = (Side.USERS, Side.ITEMS)
MAX_STEPS, MAX_PRODUCTS = 20, 500
# MINRES stops when so much is left, over norms that it estimates itself: of the residual some hundredths are left then.
# Where the Hessian is nearly singular, as it is far from an optimum, more precise steps lead too far.
RTOL_AT_OPTIMUM, RTOL = 3e-4, 3e-3
# Steps end when so much of the first residual is left: of the gap, which goes with its square, a millionth is left.
PRECISION = 1e-3


@dataclass(frozen=True, eq=False)
class Reference:
    """The model that a request should lead to, and what is left of the residual that the request has changed."""

    model: MF
    residual_left: float
    products: int


class References:
    """Finds the references of requests of one original; the Hessians of its rows are inverted once.

    With a `folder` those that were given a name are kept there: they do not depend on how the package forgets.
    """

    def __init__(
        self, original: MF, full: Interactions, *, at_optimum: bool, folder: Path | None = None
    ) -> None:
        self.original = in_double(original)
        self._full, self._at_optimum, self._folder = full, at_optimum, folder

    def find(self, remain: Interactions, *, precision: float = PRECISION, name: str = "") -> Reference:
        """The reference on the data that remains, beginning with the original whose emptied rows are zero."""
        path = self._folder / f"{name.replace(' ', '-')}.safetensors" if self._folder and name else None
        if path is not None and path.is_file():
            return self._kept(path)
        with threadpool_limits(1, "blas"):  # else its threads and those of the kernels fight
            found = self._find(remain, precision)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            about = torch.tensor([found.residual_left, found.products], dtype=torch.float64)
            save_file({**found.model.parameters(), "about": about}, path)
        return found

    def _kept(self, path: Path) -> Reference:
        tables = load_file(path)
        residual_left, products = tables.pop("about").tolist()
        return Reference(self.original.with_parameters(tables), residual_left, int(products))

    @cached_property
    def _hessian(self) -> Hessian:
        return Hessian(self.original, Pairs.of(self._full))

    @cached_property
    def _inverses(self) -> NDArray[np.float32]:
        return self._hessian.inverse_row_hessians()

    @cached_property
    def _own(self) -> Floats:
        residual = self._hessian.residual
        return np.zeros_like(residual) if self._at_optimum else residual

    def _find(self, remain: Interactions, precision: float) -> Reference:
        model, pairs = self.original.without_empty_rows(remain), Pairs.of(remain)
        target = self._own * np.concatenate([remain.by(side).counts > 0 for side in SIDES])[:, None]
        hessian = Hessian(model, pairs)
        left = hessian.residual - target
        opened, size, products = float(np.linalg.norm(left)), 1.0, 0
        for _ in range(MAX_STEPS):
            if np.linalg.norm(left) <= precision * opened:
                break
            step, n_products = self._newton_step(hessian, left)
            products += n_products
            while size > 1 / 64:
                moved = _moved(model, size * step)
                after = Hessian(moved, pairs)
                if np.linalg.norm(after.residual - target) <= (1 - size / 4) * np.linalg.norm(left):
                    model, hessian, left = moved, after, after.residual - target
                    size = min(2 * size, 1.0)
                    break
                size /= 2
            else:
                break
        return Reference(model, float(np.linalg.norm(left)) / max(opened, 1e-300), products)

    def _newton_step(self, hessian: Hessian, residual: Floats) -> tuple[Floats, int]:
        """The step that would remove a residual if half the Hessian stayed what it is here."""
        shape, n, products = residual.shape, len(hessian.p), 0

        def product(flat: Floats) -> Floats:
            nonlocal products
            products += 1
            vectors = np.ascontiguousarray(flat).reshape(shape)
            return np.concatenate(hessian.product(vectors[:n], vectors[n:])).ravel()

        def precondition(flat: Floats) -> Floats:
            vectors = flat.reshape(shape).astype(np.float32)
            nearer: Floats = np.matmul(self._inverses, vectors[:, :, None]).astype(np.float64)
            return nearer.ravel()

        size = (residual.size,) * 2
        solution, _ = minres(
            LinearOperator(size, matvec=product, dtype=np.float64),
            residual.ravel(),
            M=LinearOperator(size, matvec=precondition, dtype=np.float64),
            rtol=RTOL_AT_OPTIMUM if self._at_optimum else RTOL,
            maxiter=MAX_PRODUCTS,
        )
        return solution.reshape(shape), products


def in_double(model: MF) -> MF:
    return model.with_parameters({name: value.double() for name, value in model.parameters().items()})


def zeroed(original: MF, remain: Interactions) -> MF:
    """The original whose emptied rows are zero, in double precision: where nothing else was done."""
    return in_double(original).without_empty_rows(remain)


def loss(model: MF, remain: Interactions) -> float:
    """L by a formula that shares no code with the package."""
    return Formula(model, Pairs.of(remain)).loss


def _moved(model: MF, step: Floats) -> MF:
    users, items = np.split(step, [model.n_users])
    return model.with_parameters(
        {"users": model.users + torch.from_numpy(users), "items": model.items + torch.from_numpy(items)}
    )
