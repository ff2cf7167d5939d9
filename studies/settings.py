"""The settings a run trains with: chosen once per data set and regime by `tune`, kept in a file with it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from alteraser.errors import SettingError
from alteraser.models.objective import Objective
from alteraser.train.adamw import AdamW
from alteraser.train.base import Trainer
from alteraser.train.named import TO_THE_OPTIMUM

Regime = Literal["paper", "converged"]
REGIMES: tuple[Regime, ...] = ("paper", "converged")
CHOSEN = Path(__file__).with_name("settings.json")


@dataclass(frozen=True)
class Settings:
    """The objective and how it is minimised; `learning_rate` and `batch_users` concern AdamW alone."""

    dim: int = 64
    w0: float = 0.3
    l2: float = 0.01
    l2_scaling: float = 1.0
    learning_rate: float = 0.01
    batch_users: int = 256

    def objective(self) -> Objective:
        return Objective(w0=self.w0, l2=self.l2, l2_scaling=self.l2_scaling)

    def trainer(self, regime: Regime) -> Trainer:
        """AdamW with early stopping as in the paper, or accelerated ALS to the optimum."""
        if regime == "paper":
            return AdamW(learning_rate=self.learning_rate, batch_users=self.batch_users)
        return TO_THE_OPTIMUM

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def chosen_settings(dataset: str, regime: Regime) -> Settings:
    """What the search chose for this data set and regime."""
    chosen = _chosen()
    if dataset not in chosen or regime not in chosen[dataset]:
        raise SettingError(
            f"No settings were chosen for {dataset} in the {regime} regime; run `python -m studies tune` first."
        )
    return Settings(**chosen[dataset][regime])


def paper_datasets() -> tuple[str, ...]:
    """The data sets of the paper, for which settings were chosen."""
    return tuple(_chosen())


def _chosen() -> dict[str, dict[str, dict[str, Any]]]:
    chosen: dict[str, dict[str, dict[str, Any]]] = json.loads(CHOSEN.read_text(encoding="utf-8"))
    return chosen
