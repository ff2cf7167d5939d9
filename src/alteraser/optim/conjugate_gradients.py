"""Truncated conjugate gradients: the one way in which every Newton here solves equations it only knows by products."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alteraser.errors import SettingError

Vectors = TypeVar("Vectors", Tensor, NDArray[Any])
"""A block of vectors, as a tensor or as an array; callables are given what the right side came as."""
Scalar: TypeAlias = Any
"""A number per system: a float where there is one system, else a tensor that broadcasts over the vectors."""

# Bytes of the numbers that are multiplied and summed in their own precision, before sums go on in double: so few that
# the rounding error does not grow with the system, and that OpenBLAS does not wake its threads, as it does beyond ten
# thousand numbers: these go on spinning and hold up the kernels. With them 64 accounts of ml-100k took six times as
# long in double precision.
DOT_BYTES = 2**15


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
class Solved(Generic[Vectors]):
    """How far conjugate gradients came."""

    solution: Vectors
    decrease: NDArray[np.float64]  # [B], by how much xᵀ(A + damping·M)x − 2xᵀb, which is 0 at x = 0, falls
    gains: list[NDArray[np.float64]]  # what each product has added to it, [B]
    indefinite: bool  # whether a system ended because of its curvature

    @property
    def n_products(self) -> int:
        return len(self.gains)


def conjugate_gradients(
    right_side: Vectors,
    product: Callable[[Vectors, Vectors], Vectors],
    *,
    stopping: Stopping,
    precondition: Callable[[Vectors], Vectors] | None = None,
    damping: float | Tensor = 0.0,
) -> Solved[Vectors]:
    """Solves (A + damping·M)·x = b for a block of independent systems, from x = 0, as far as `stopping` asks.

    The first dimension of `right_side` counts the systems; all rows of a table together are one, [1, rows, d].
    `product` is A times a search direction and also gets M times that direction, `precondition` is M⁻¹ times vectors;
    neither changes what it gets. M itself is never asked for: M times the direction follows from the recurrence of the
    direction. Without a preconditioner M is the identity. `damping` is a number, or one for each system.

    A system ends with what it has where the curvature along a direction is negative or less than half of what the
    damping adds to it: the quadratic picture does not hold that far. If that is so at once, its answer is M⁻¹b.
    """
    algebra: _Algebra = _One(right_side) if len(right_side) == 1 else _Many(right_side)
    damping, damped = algebra.scalar(damping), isinstance(damping, Tensor) or damping != 0
    view, residual, solution = algebra.view, _copied(right_side), _copied(right_side)
    search = _copied(residual if precondition is None else precondition(residual))
    m_search = search if precondition is None else _copied(residual)
    # Views of the same numbers, in which the arithmetic is done in place.
    r, x, s, ms = view(residual), view(solution), view(search), view(m_search)
    x[:] = 0
    norm = algebra.dot(r, s)
    goal, promised = stopping.relative_residual**2 * norm, 0.0 * norm
    active, indefinite = (norm > 0) & (norm > goal), False
    gains: list[NDArray[np.float64]] = []
    while len(gains) < stopping.max_products and algebra.any(active):
        curved = view(product(search, m_search))
        of_damping = damping * algebra.dot(s, ms) if damped else 0.0
        curvature = algebra.dot(s, curved) + of_damping
        curved_enough = curvature > of_damping / 2
        indefinite = indefinite or algebra.any(active & (curvature <= of_damping / 2))
        # A system that has found nothing yet takes the preconditioned residual itself.
        whole = 1.0 * active if not gains else 0.0
        length = algebra.divide(norm, curvature, where=active & curved_enough, otherwise=whole)
        gains.append(algebra.per_system(length * norm))
        algebra.add(x, length, s)
        promised = promised + length * norm
        active = active & curved_enough & (length * norm >= algebra.least(stopping, promised))
        if not algebra.any(active):
            break
        algebra.add(r, -length, curved)
        if damped:
            algebra.add(r, -length * damping, ms)
        nearer = r if precondition is None else view(precondition(residual))
        norm, before = algebra.dot(r, nearer), norm
        ratio = algebra.divide(norm, before, where=active, otherwise=0.0)
        algebra.turn(s, ratio, nearer, active)
        if precondition is not None:
            algebra.turn(ms, ratio, r, active)
        active = active & (norm > goal)
    return Solved(solution, algebra.per_system(promised), gains, indefinite)


def _copied(vectors: Vectors) -> Vectors:
    return vectors.clone() if isinstance(vectors, Tensor) else vectors.copy()


class _Algebra(Protocol):
    """What differs between one system and many: one needs no masks, and its numbers no tensors."""

    def view(self, vectors: Any) -> Any:
        """The same numbers in the form that this arithmetic is done in."""
        ...

    def scalar(self, value: float | Tensor) -> Scalar: ...

    def dot(self, a: Any, b: Any) -> Scalar: ...

    def any(self, active: Scalar) -> bool: ...

    def divide(self, a: Scalar, b: Scalar, *, where: Scalar, otherwise: Scalar) -> Scalar: ...

    def least(self, stopping: Stopping, promised: Scalar) -> Scalar:
        """The smallest decrease that is worth another product."""
        ...

    def add(self, vectors: Any, length: Scalar, direction: Any) -> None:
        """Adds length·direction to the vectors."""
        ...

    def turn(self, direction: Any, ratio: Scalar, towards: Any, active: Scalar) -> None:
        """The direction becomes towards + ratio·direction; zero in systems that have ended."""
        ...

    def per_system(self, value: Scalar) -> NDArray[np.float64]: ...


class _One:
    """In numpy, whose calls are short and wake no threads: these would compete with those of the products."""

    def __init__(self, vectors: Tensor | NDArray[Any]) -> None:
        self._scratch = np.empty_like(self.view(vectors))

    def view(self, vectors: Tensor | NDArray[Any]) -> NDArray[Any]:
        return vectors.numpy() if isinstance(vectors, Tensor) else vectors

    def scalar(self, value: float | Tensor) -> float:
        return float(value)

    def dot(self, a: NDArray[Any], b: NDArray[Any]) -> float:
        if a.nbytes <= DOT_BYTES:
            return float(np.vdot(a, b))
        a, b = a.reshape(-1), b.reshape(-1)
        n = DOT_BYTES // a.itemsize
        chunks = (slice(begin, begin + n) for begin in range(0, len(a), n))
        return math.fsum(float(np.vdot(a[chunk], b[chunk])) for chunk in chunks)

    def any(self, active: bool) -> bool:
        return active

    def divide(self, a: float, b: float, *, where: bool, otherwise: float) -> float:
        return a / b if where else otherwise

    def least(self, stopping: Stopping, promised: float) -> float:
        return min(stopping.forcing * promised, stopping.enough)

    def add(self, vectors: NDArray[Any], length: float, direction: NDArray[Any]) -> None:
        vectors += np.multiply(direction, length, out=self._scratch)

    def turn(self, direction: NDArray[Any], ratio: float, towards: NDArray[Any], active: bool) -> None:
        del active
        direction *= ratio
        direction += towards

    def per_system(self, value: float) -> NDArray[np.float64]:
        return np.array([value])


class _Many:
    """Systems are short, a row each: their sums stay in their own precision."""

    def __init__(self, vectors: Tensor | NDArray[Any]) -> None:
        self._scratch = torch.empty_like(self.view(vectors))
        self._dimensions = tuple(range(1, vectors.ndim))

    def view(self, vectors: Tensor | NDArray[Any]) -> Tensor:
        return vectors if isinstance(vectors, Tensor) else torch.from_numpy(vectors)

    def scalar(self, value: float | Tensor) -> Scalar:
        return value.view(-1, *(1 for _ in self._dimensions)) if isinstance(value, Tensor) else value

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

    def per_system(self, value: Tensor) -> NDArray[np.float64]:
        return value.double().flatten().numpy()
