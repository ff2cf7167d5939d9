"""`RowProblem`: a block of small minimisations of one shape, independent of each other, answered together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from alteraser.errors import SettingError


@dataclass(frozen=True, eq=False)
class Expansion:
    """A block of functions near a point: values [B], gradients [B, d], and their curvature.

    The curvature (the Hessian unless said otherwise) comes as products with vectors [B, d] and, when called for, as
    matrices [B, d, d].
    """

    value: Tensor
    gradient: Tensor
    product: Callable[[Tensor], Tensor]
    matrix: Callable[[], Tensor]


class RowProblem(ABC):
    """B functions of d variables each; a point is a tensor [B, d] and row i of it concerns function i alone.

    A model gives `value`, differentiable by torch; the rest follows by automatic differentiation. A model that
    knows a closed form overrides `hessian`, and a quadratic one `quadratic` and `minimum`. One whose value is a sum
    of squares offers its `residuals`.
    """

    quadratic: ClassVar[bool] = False
    """Whether the functions are quadratic, so that one Hessian holds everywhere."""

    @abstractmethod
    def value(self, x: Tensor) -> Tensor:
        """The value of each function, [B]."""

    def expand(self, x: Tensor, *, products: bool = True) -> Expansion:
        """Values, gradients and Hessian products at x; the products reuse one recorded graph.

        Who needs no products says so and spares the recording.
        """
        point = x.detach().requires_grad_()
        value = self.value(point)
        # The functions are independent, so the gradient of their sum holds the gradient of each.
        (gradient,) = torch.autograd.grad(value.sum(), point, create_graph=products)

        def product(vectors: Tensor) -> Tensor:
            (result,) = torch.autograd.grad(gradient, point, vectors, retain_graph=True)
            return result

        return Expansion(value.detach(), gradient.detach(), product, lambda: self.hessian(x))

    def hessian(self, x: Tensor) -> Tensor:
        """The Hessian of each function, [B, d, d]; d products, each for the whole block."""
        return _matrix(self.expand(x).product, x)

    def residuals(self, x: Tensor) -> Tensor | None:
        """[B, n] whose squares sum to the value of each function up to a constant; None if it is no such sum."""
        del x
        return None

    def expand_gauss_newton(self, x: Tensor) -> Expansion:
        """As `expand`, with 2JᵀJ for the curvature, where J is the Jacobian of the residuals."""
        here = self.expand(x, products=False)
        point = x.detach().requires_grad_()
        residuals = self.residuals(point)
        if residuals is None:
            raise SettingError(
                f"Gauss-Newton wants a sum of squares, which {type(self).__name__} does not offer. "
                f"Take hf-newton, or give it `residuals`."
            )
        # vᵀJ is linear in v, so that its derivative in the direction of v is J times a vector.
        along = torch.zeros_like(residuals, requires_grad=True)
        (back,) = torch.autograd.grad(residuals, point, along, create_graph=True)

        def product(vectors: Tensor) -> Tensor:
            (forth,) = torch.autograd.grad(back, along, vectors, retain_graph=True)
            (result,) = torch.autograd.grad(residuals, point, 2 * forth, retain_graph=True)
            return result

        return Expansion(here.value, here.gradient, product, lambda: _matrix(product, x))

    def alone(self, place: int, x: Tensor) -> RowProblem:
        """Function `place` of the block as a block of one.

        Here by evaluating the whole block with the other rows at x: a model that can take rows apart overrides it.
        """
        return _Alone(self, place, x)

    def minimum(self) -> Tensor | None:
        """The exact minimum of each function where it has a closed form (a quadratic), else None."""
        return None

    def descended(self, x: Tensor, *, tolerance: float, max_products: int) -> Tensor | None:
        """Where conjugate gradients lead from x on a quadratic, if the problem has a quicker way there, else None."""
        del x, tolerance, max_products
        return None


class _Alone(RowProblem):
    def __init__(self, block: RowProblem, place: int, x: Tensor) -> None:
        self.block, self.place, self.others = block, place, x.detach()

    def value(self, x: Tensor) -> Tensor:
        return self.block.value(self._among(x))[self.place, None]

    def residuals(self, x: Tensor) -> Tensor | None:
        residuals = self.block.residuals(self._among(x))
        return None if residuals is None else residuals[self.place, None]

    def _among(self, x: Tensor) -> Tensor:
        return torch.cat([self.others[: self.place], x, self.others[self.place + 1 :]])


def _matrix(product: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    basis = torch.eye(x.shape[1], dtype=x.dtype)
    return torch.stack([product(axis.expand_as(x)) for axis in basis], dim=2)
