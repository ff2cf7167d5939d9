"""When training with noise in its loss is over."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class EarlyStopping:
    """Over when `patience` epochs in a row brought no relative improvement of at least `min_improvement`."""

    patience: int
    min_improvement: float
    best: float = field(default=float("inf"), init=False)
    waited: int = field(default=0, init=False)

    def improved(self, loss: float) -> bool:
        """Whether this epoch counts as better than all before."""
        better = self.best == float("inf") or loss < self.best * (1 - self.min_improvement)
        if better:
            self.best, self.waited = loss, 0
        else:
            self.waited += 1
        return better

    @property
    def over(self) -> bool:
        return self.waited >= self.patience
