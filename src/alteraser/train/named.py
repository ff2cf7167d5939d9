"""The trainers by the name the command and a model's manifest know them by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from alteraser.errors import ModelFileError, SettingError
from alteraser.sweep.joint import JointNewton
from alteraser.train.adamw import AdamW
from alteraser.train.als import ALS
from alteraser.train.base import Trainer

# What `named_trainer` calls a setting, and the field of the trainer it is.
_FIELDS: dict[str, dict[str, str]] = {
    "als": {"max_passes": "max_passes", "tolerance": "tolerance", "solve_h": "solve_shared"},
    "newton": {"max_passes": "max_passes", "tolerance": "tolerance"},
    "adamw": {
        "max_passes": "max_epochs",
        "tolerance": "min_improvement",
        "learning_rate": "learning_rate",
        "batch_users": "batch_users",
    },
}
# Passes end where one lowers the loss by less than als's tolerance; Newton's steps then go on to the optimum.
TO_THE_OPTIMUM = ALS(max_passes=1000, tolerance=1e-9, acceleration=JointNewton(switch_below=1e-5))
_DEFAULTS: dict[str, ALS | AdamW] = {"als": ALS(), "newton": TO_THE_OPTIMUM, "adamw": AdamW()}


def named_trainer(trainer: str, **settings: Any) -> Trainer:
    """The trainer of that name; what is None has the trainer's own default.

    All have `max_passes` and `tolerance`, als has `solve_h`, adamw `learning_rate` and `batch_users`.
    """
    if trainer not in _FIELDS:
        raise SettingError(f"There is no trainer {trainer!r}; {', '.join(_FIELDS)} are known.")
    given = {name: value for name, value in settings.items() if value is not None}
    if unknown := given.keys() - _FIELDS[trainer].keys():
        raise SettingError(
            f"{', '.join(sorted(unknown))}: not a setting of {trainer}, which has {', '.join(_FIELDS[trainer])}."
        )
    return replace(_DEFAULTS[trainer], **{_FIELDS[trainer][name]: value for name, value in given.items()})


def recorded(trainer: Trainer) -> dict[str, Any] | None:
    """The trainer as a manifest keeps it, all settings written out; None if they do not tell all of it."""
    for name, fields in _FIELDS.items():
        if isinstance(trainer, type(_DEFAULTS[name])):
            settings = {setting: getattr(trainer, field) for setting, field in fields.items()}
            if named_trainer(name, **settings) == trainer:
                return {"trainer": name, **settings}
    return None


def recorded_trainer(record: Mapping[str, Any]) -> Trainer:
    """The trainer that `recorded` told of."""
    try:
        return named_trainer(**record)
    except (TypeError, SettingError):
        raise ModelFileError(
            "The model's manifest tells of a training this alteraser does not know. Use the version that wrote the "
            "model, or train it anew."
        ) from None
