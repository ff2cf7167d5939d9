"""Extrapolation between passes: alternating passes converge slowly, and where they are heading can be guessed.

With the users always solved anew, a pass is a map of the last side's table alone (the items'): Q → G(Q). Anderson's
method takes the combination of the last few outputs whose residuals G(Q) − Q cancel best.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from alteraser.data.interactions import Interactions
from alteraser.errors import SettingError
from alteraser.sweep.sweep import Advance, Model, Rows, Sweeper


@dataclass(frozen=True)
class Anderson:
    """How many of the last passes a guess is made from."""

    window: int = 6

    def __post_init__(self) -> None:
        if self.window < 2:
            raise SettingError(f"window is {self.window}; a whole number from 2 up is wanted.")

    def begin(self, sweeper: Sweeper, model: Model, data: Interactions) -> Advance[Model]:
        del model
        return Extrapolated(self.window, sweeper, data)


class Extrapolated:
    """Passes that start from the guess for the last side's table, unless the loss would rise."""

    def __init__(self, window: int, sweeper: Sweeper, data: Interactions) -> None:
        self._history, self._sweeper, self._data = History(window), sweeper, data
        self._rows = Rows.occupied(data)

    def __call__(self, model: Model, loss: float) -> tuple[Model, float]:
        *first, last = model.sides
        start, guess = model, self._history.guess()
        if guess is not None:
            start = model.with_parameters({**model.parameters(), last.value: guess})
        before = self._sweeper.halves(start, self._data, self._rows, first)
        if guess is not None and not self._sweeper.loss(before, self._data) <= loss:
            self._history.restart()
            before = self._sweeper.halves(model, self._data, self._rows, first)
        after = self._sweeper.half(before, self._data, self._rows, last)
        self._history.add(before.table(last), after.table(last))
        return after, self._sweeper.loss(after, self._data)


@dataclass(eq=False)
class History:
    """The tables that went into the last passes and those that came out, as differences from pass to pass."""

    window: int
    residuals: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)

    def add(self, before: Tensor, after: Tensor) -> None:
        """Remember a pass that turned `before` into `after`."""
        self.residuals = [*self.residuals[-self.window + 1 :], after - before]
        self.outputs = [*self.outputs[-self.window + 1 :], after]

    def restart(self) -> None:
        """Begin again with the last pass alone, as after a guess that was no good."""
        self.residuals, self.outputs = self.residuals[-1:], self.outputs[-1:]

    def guess(self) -> Tensor | None:
        """Where the passes seem to be heading; None after fewer than two, and where they move no more.

        outputs_k − Σ γ_i Δoutputs_i with the γ that minimise ‖residual_k − Σ γ_i Δresidual_i‖.
        """
        if len(self.residuals) < 2:
            return None
        steps = torch.stack(
            [(b - a).flatten() for a, b in zip(self.residuals, self.residuals[1:], strict=False)]
        )
        products = (steps @ steps.T).double()
        # A touch on the diagonal: steps become nearly parallel close to the end.
        products += 1e-10 * products.diagonal().mean() * torch.eye(len(products), dtype=torch.float64)
        gamma, failed = torch.linalg.solve_ex(products, (steps @ self.residuals[-1].flatten()).double())
        if failed or not torch.isfinite(gamma).all():
            return None  # at a fixed point passes no longer differ
        guess = self.outputs[-1].clone()
        for weight, a, b in zip(gamma.tolist(), self.outputs, self.outputs[1:], strict=False):
            guess -= weight * (b - a)
        return guess
