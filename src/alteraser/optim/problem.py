"""`RowProblem`: a block of small minimisations of one shape, independent of each other, answered together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Expansion:
    """A block of functions near a point: values [B], gradients [B, d], and products of their Hessians with vectors."""

    value: Tensor
    gradient: Tensor
    product: Callable[[Tensor], Tensor]


class RowProblem(ABC):
    """B functions of d variables each; a point is a tensor [B, d] and row i of it concerns function i alone.

    A model gives `value`, differentiable by torch; the rest follows by automatic differentiation. A model that
    knows a closed form overrides `hessian`, and a quadratic one `minimum`.
    """

    @abstractmethod
    def value(self, x: Tensor) -> Tensor:
        """The value of each function, [B]."""

    def expand(self, x: Tensor) -> Expansion:
        """Values, gradients and Hessian products at x; the products reuse one recorded graph."""
        point = x.detach().requires_grad_()
        value = self.value(point)
        # The functions are independent, so the gradient of their sum holds the gradient of each.
        (gradient,) = torch.autograd.grad(value.sum(), point, create_graph=True)

        def product(vectors: Tensor) -> Tensor:
            (result,) = torch.autograd.grad(gradient, point, vectors, retain_graph=True)
            return result

        return Expansion(value.detach(), gradient.detach(), product)

    def hessian(self, x: Tensor) -> Tensor:
        """The Hessian of each function, [B, d, d]; d products, each for the whole block."""
        product = self.expand(x).product
        basis = torch.eye(x.shape[1], dtype=x.dtype)
        return torch.stack([product(axis.expand_as(x)) for axis in basis], dim=2)

    def minimum(self) -> Tensor | None:
        """The exact minimum of each function where it has a closed form (a quadratic), else None."""
        return None
