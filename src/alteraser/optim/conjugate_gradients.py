"""Truncated conjugate gradients: the one way in which every Newton here solves equations it only knows by products."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor

from alteraser.errors import SettingError

Product = Callable[[Tensor, Tensor], Tensor]
"""A times a search direction. It also gets M times that direction, which is known anyway; it changes neither."""
Precondition = Callable[[Tensor], Tensor]
"""M⁻¹ times vectors, which it leaves as they are."""
Scalar: TypeAlias = Any
"""A number per system: a float where there is one system, else a tensor that broadcasts over the vectors."""

# Numbers multiplied and summed in their own precision, before sums go on in double: 256 KiB of single precision, so
# that the rounding error does not grow with the system, and no table is copied to double for the sake of a sum.
DOT_CHUNK = 2**16


@dataclass(frozen=True)
class Stopping:
    """When a system is solved well enough. Each of the two rules ends it; by default neither does.

    - rᵀM⁻¹r of its residual r is at most `relative_residual`² of what it was at the start.
    - A product promised a decrease below `forcing` of what all its products have promised, and below `enough`.
    """

    relative_residual: float = 0.0
    forcing: float = 0.0
    enough: float = math.inf
    max_products: int = 200

    def __post_init__(self) -> None:
        if not (self.relative_residual >= 0 and 0 <= self.forcing < 1 and self.enough >= 0):
            raise SettingError(
                f"relative_residual is {self.relative_residual}, forcing {self.forcing} and enough {self.enough}; "
                f"numbers from 0 up are wanted, forcing below 1."
            )
        if self.max_products < 1:
            raise SettingError(f"max_products is {self.max_products}; a whole number from 1 up is wanted.")


@dataclass(frozen=True, eq=False)
class Solved:
    """How far conjugate gradients came."""

    solution: Tensor  # as the right side
    decrease: (
        Tensor  # [B], by how much it lowers xᵀ(A + damping·M)x − 2xᵀb of each system, which is 0 at x = 0
    )
    n_products: int


def conjugate_gradients(
    right_side: Tensor,
    product: Product,
    *,
    stopping: Stopping,
    precondition: Precondition | None = None,
    damping: float | Tensor = 0.0,
) -> Solved:
    """Solves (A + damping·M)·x = b for a block of independent systems, from x = 0, as far as `stopping` asks.

    The first dimension of `right_side` counts the systems; all rows of a table together are one, [1, rows, d]. M is
    the inverse of the preconditioner and is never applied: M times the search direction follows from the recurrence of
    the direction itself. Without a preconditioner M is the identity. `damping` is a number, or one for each system.

    A system ends with what it has where the curvature along a direction is negative or less than half of what the
    damping adds to it: the quadratic picture does not hold that far. If that is so at once, its answer is M⁻¹b.
    """
    algebra: _Algebra = _One() if len(right_side) == 1 else _Many(right_side)
    damping, damped = algebra.scalar(damping), isinstance(damping, Tensor) or damping != 0
    residual, solution = right_side.clone(), torch.zeros_like(right_side)
    search = residual.clone() if precondition is None else precondition(residual).clone()
    m_search = search if precondition is None else residual.clone()
    norm = algebra.dot(residual, search)
    goal, promised = stopping.relative_residual**2 * norm, 0.0 * norm
    active, n_products = (norm > 0) & (norm > goal), 0
    while n_products < stopping.max_products and algebra.any(active):
        curved = product(search, m_search)
        of_damping = damping * algebra.dot(search, m_search) if damped else 0.0
        curvature = algebra.dot(search, curved) + of_damping
        curved_enough = curvature > of_damping / 2
        whole = (
            1.0 * active if n_products == 0 else 0.0
        )  # nothing found yet: the preconditioned residual itself
        length = algebra.divide(norm, curvature, where=active & curved_enough, otherwise=whole)
        n_products += 1
        algebra.add(solution, length, search)
        promised = promised + length * norm
        active = active & curved_enough & (length * norm >= algebra.least(stopping, promised))
        if not algebra.any(active):
            break
        algebra.add(residual, -length, curved)
        if damped:
            algebra.add(residual, -length * damping, m_search)
        nearer = residual if precondition is None else precondition(residual)
        norm, before = algebra.dot(residual, nearer), norm
        ratio = algebra.divide(norm, before, where=active, otherwise=0.0)
        algebra.turn(search, ratio, nearer, active)
        if m_search is not search:
            algebra.turn(m_search, ratio, residual, active)
        active = active & (norm > goal)
    return Solved(solution, algebra.per_system(promised), n_products)


class _Algebra(Protocol):
    """What differs between one system and many: one needs no masks, and its numbers no tensors."""

    def scalar(self, value: float | Tensor) -> Scalar: ...

    def dot(self, a: Tensor, b: Tensor) -> Scalar: ...

    def any(self, active: Scalar) -> bool: ...

    def divide(self, a: Scalar, b: Scalar, *, where: Scalar, otherwise: Scalar) -> Scalar: ...

    def least(self, stopping: Stopping, promised: Scalar) -> Scalar:
        """The smallest decrease that is worth another product."""
        ...

    def add(self, vectors: Tensor, length: Scalar, direction: Tensor) -> None:
        """Adds length·direction to the vectors."""
        ...

    def turn(self, direction: Tensor, ratio: Scalar, towards: Tensor, active: Scalar) -> None:
        """The direction becomes towards + ratio·direction; zero in systems that have ended."""
        ...

    def per_system(self, value: Scalar) -> Tensor: ...


class _One:
    def scalar(self, value: float | Tensor) -> float:
        return float(value)

    def dot(self, a: Tensor, b: Tensor) -> float:
        a, b = a.reshape(-1), b.reshape(-1)
        if len(a) <= DOT_CHUNK:
            return float(torch.dot(a, b))
        chunks = (slice(begin, begin + DOT_CHUNK) for begin in range(0, len(a), DOT_CHUNK))
        return math.fsum(float(torch.dot(a[chunk], b[chunk])) for chunk in chunks)

    def any(self, active: bool) -> bool:
        return active

    def divide(self, a: float, b: float, *, where: bool, otherwise: float) -> float:
        return a / b if where else otherwise

    def least(self, stopping: Stopping, promised: float) -> float:
        return min(stopping.forcing * promised, stopping.enough)

    def add(self, vectors: Tensor, length: float, direction: Tensor) -> None:
        vectors.add_(direction, alpha=length)

    def turn(self, direction: Tensor, ratio: float, towards: Tensor, active: bool) -> None:
        del active
        torch.add(towards, direction, alpha=ratio, out=direction)

    def per_system(self, value: float) -> Tensor:
        return torch.tensor([value], dtype=torch.float64)


class _Many:
    """Systems are short, a row each: their sums stay in their own precision."""

    def __init__(self, vectors: Tensor) -> None:
        self._shape = (-1, *(1 for _ in vectors.shape[1:]))
        self._dimensions = tuple(range(1, vectors.ndim))
        self._scratch = torch.empty_like(vectors)

    def scalar(self, value: float | Tensor) -> Scalar:
        return value.view(self._shape) if isinstance(value, Tensor) else value

    def dot(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.mul(a, b, out=self._scratch).sum(self._dimensions, keepdim=True)

    def any(self, active: Tensor) -> bool:
        return bool(active.any())

    def divide(self, a: Tensor, b: Tensor, *, where: Tensor, otherwise: Scalar) -> Tensor:
        return torch.where(where, a / b, otherwise)

    def least(self, stopping: Stopping, promised: Tensor) -> Tensor:
        return (stopping.forcing * promised).clamp_max(stopping.enough)

    def add(self, vectors: Tensor, length: Tensor, direction: Tensor) -> None:
        vectors.addcmul_(direction, length)

    def turn(self, direction: Tensor, ratio: Tensor, towards: Tensor, active: Tensor) -> None:
        torch.addcmul(towards, direction, ratio, out=direction)
        direction.masked_fill_(~active, 0)

    def per_system(self, value: Tensor) -> Tensor:
        return value.double().flatten()
