"""The trainers by the name the command knows them by."""

from __future__ import annotations

from dataclasses import replace

from alteraser.errors import SettingError
from alteraser.train.adamw import AdamW
from alteraser.train.als import ALS
from alteraser.train.base import Trainer


def named_trainer(
    name: str,
    *,
    max_passes: int | None = None,
    tolerance: float | None = None,
    learning_rate: float | None = None,
    solve_others: bool = False,
) -> Trainer:
    """The trainer of that name; what is None has the trainer's own default."""
    if name == "als":
        als = ALS(solve_others=solve_others)
        als = als if max_passes is None else replace(als, max_passes=max_passes)
        return als if tolerance is None else replace(als, tolerance=tolerance)
    if name == "adamw":
        adamw = AdamW()
        adamw = adamw if max_passes is None else replace(adamw, max_epochs=max_passes)
        adamw = adamw if tolerance is None else replace(adamw, min_improvement=tolerance)
        return adamw if learning_rate is None else replace(adamw, learning_rate=learning_rate)
    raise SettingError(f"There is no trainer {name!r}; als and adamw are known.")
