"""`ReadOptions`: which columns are what and which rows count; shared by files, frames, command, manifests."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypedDict

from alteraser.data.interactions import MERGES, Merge
from alteraser.errors import SettingError


class ReadKeywords(TypedDict, total=False):
    """The settings of `ReadOptions` as keyword arguments."""

    user: str
    item: str
    weight: str | None
    time: str | None
    rating: str | None
    min_rating: float | None
    min_interactions: int | None
    merge: Merge


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How a table becomes interactions; `rating` is the column `min_rating` cuts, "rating" unless given."""

    user: str = "user_id"
    item: str = "item_id"
    weight: str | None = None
    time: str | None = None
    rating: str | None = None
    min_rating: float | None = None
    min_interactions: int | None = None
    merge: Merge = "max"

    def __post_init__(self) -> None:
        for name in ("user", "item", "weight", "time", "rating"):
            column = getattr(self, name)
            required = name in ("user", "item")
            if not (isinstance(column, str) and column) and (required or column is not None):
                raise SettingError(f"{name} is {column!r}; it must be the name of a column.")
        if self.user == self.item:
            raise SettingError(f"user and item both name the column {self.user!r}; they must be two columns.")
        if self.min_rating is not None and not (
            _is_number(self.min_rating) and math.isfinite(self.min_rating)
        ):
            raise SettingError(f"min_rating is {self.min_rating!r}; it must be a number.")
        k = self.min_interactions
        if k is not None and (not isinstance(k, int) or isinstance(k, bool) or k < 1):
            raise SettingError(f"min_interactions is {k!r}; it must be a whole number from 1 up.")
        if self.merge not in MERGES:
            raise SettingError(f"merge is {self.merge!r}; it must be one of {', '.join(MERGES)}.")

    @property
    def columns(self) -> dict[str, str]:
        """The columns that have to be there, by the setting that names them."""
        named = {"user": self.user, "item": self.item, "weight": self.weight, "time": self.time}
        if self.min_rating is not None:
            named["rating"] = self.rating or "rating"
        return {setting: column for setting, column in named.items() if column is not None}

    def with_options(self, options: Mapping[str, Any]) -> ReadOptions:
        """The same options, some settings replaced."""
        return ReadOptions.from_dict(self.to_dict() | dict(options))

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Self:
        """The options that a plain dictionary describes; what is left out has its default."""
        known = [field.name for field in dataclasses.fields(cls)]
        if unknown := [str(name) for name in settings if name not in known]:
            raise SettingError(
                f"{', '.join(unknown)}: no such setting for reading data. "
                f"The settings are {', '.join(known)}."
            )
        return cls(**settings)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
