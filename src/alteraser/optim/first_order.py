"""The optimisers of deep learning on the same row problems, for comparison: AdamW and AdaHessian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from alteraser.errors import MissingExtra
from alteraser.optim.minimize import Status, Step
from alteraser.optim.problem import Expansion, RowProblem


class Rule(Protocol):
    """Which optimiser moves a block, and what it looks at."""

    @property
    def products(self) -> bool:
        """Whether it looks at Hessian products."""
        ...

    def optimizer(self, point: Tensor, learning_rate: float) -> Any:
        """A torch optimiser of `point`."""
        ...

    def move(self, optimizer: Any, here: Expansion, rng: torch.Generator) -> None:
        """One step of it; the point's gradient is set already."""
        ...


@dataclass(frozen=True)
class AdamWRule:
    """AdamW without weight decay: the penalty is in the function."""

    products: bool = False

    def optimizer(self, point: Tensor, learning_rate: float) -> Any:
        return torch.optim.AdamW([point], lr=learning_rate, weight_decay=0.0)

    def move(self, optimizer: Any, here: Expansion, rng: torch.Generator) -> None:
        del here, rng
        optimizer.step()


@dataclass(frozen=True)
class AdaHessianRule:
    """AdaHessian of pytorch-optimizer: Adam with the Hessian's diagonal in place of the squared gradient.

    The diagonal is Hutchinson's estimate z ⊙ Hz from random signs z. It is made here and handed over, because the
    package would draw the signs from torch's global generator.
    """

    products: bool = True

    def optimizer(self, point: Tensor, learning_rate: float) -> Any:
        try:
            from pytorch_optimizer import AdaHessian
        except ImportError:
            raise MissingExtra(
                "The solver adahessian needs the package pytorch-optimizer, which is not installed. "
                "Install it with: pip install 'alteraser[solvers]'"
            ) from None
        return AdaHessian([point], lr=learning_rate)

    def move(self, optimizer: Any, here: Expansion, rng: torch.Generator) -> None:
        shape, dtype = here.gradient.shape, here.gradient.dtype
        signs = torch.randint(0, 2, shape, generator=rng, dtype=dtype) * 2 - 1
        optimizer.step(hessian=[signs * here.product(signs)])


@dataclass(eq=False)
class _Memory:
    point: Tensor
    optimizer: Any
    rng: torch.Generator
    best: Tensor  # of each row the point where its value was lowest, and that value
    lowest: Tensor
    steps: int = 0


@dataclass(frozen=True)
class Descent:
    """A torch optimiser on the rows of a block; the step size falls linearly to zero, so that it converges.

    Its first steps are as long however near the minimum is, so that each row keeps the best point it has seen. `seed`
    is for rules that draw; every block begins with it anew.
    """

    rule: Rule = AdamWRule()
    learning_rate: float = 0.05
    max_steps: int = 200
    tolerance: float = 1e-10
    seed: int = 0
    exact_on_quadratics: ClassVar[bool] = False

    def step(self, problem: RowProblem, x: Tensor, memory: Any) -> Step:
        memory = self._begin(x) if memory is None else memory
        for group in memory.optimizer.param_groups:
            group["lr"] = self.learning_rate * (1 - memory.steps / self.max_steps)
        here = problem.expand(memory.point, products=self.rule.products)
        better = here.value < memory.lowest
        memory.lowest = torch.where(better, here.value, memory.lowest)
        memory.best = torch.where(better[:, None], memory.point.detach(), memory.best)
        converged = here.gradient.square().sum(1) <= self.tolerance * (1 + here.value.abs())
        if bool(converged.all()):
            return Step(memory.best, memory, Status.CONVERGED)
        memory.point.grad = here.gradient
        self.rule.move(memory.optimizer, here, memory.rng)
        memory.steps += 1
        return Step(memory.best, memory, None)

    def _begin(self, x: Tensor) -> _Memory:
        point = x.detach().clone().requires_grad_()
        optimizer = self.rule.optimizer(point, self.learning_rate)
        rng = torch.Generator().manual_seed(self.seed)
        lowest = torch.full((len(x),), torch.inf, dtype=x.dtype)
        return _Memory(point, optimizer, rng, x.detach().clone(), lowest)


adamw = Descent()
adahessian = Descent(AdaHessianRule(), learning_rate=0.5)
