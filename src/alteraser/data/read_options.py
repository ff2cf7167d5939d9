"""`ReadOptions`: which columns are what and which rows count; shared by files, frames, command, manifests."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypedDict

from alteraser.data.interactions import MERGES, Merge
from alteraser.data.weighing import Weighing
from alteraser.errors import SettingError


class ReadKeywords(TypedDict, total=False):
    """The settings of `ReadOptions` as keyword arguments."""

    user: str
    item: str
    weight: str | None
    time: str | None
    rating: str | None
    min_rating: float | None
    any_rating: bool
    min_interactions: int | None
    merge: Merge
    weight_offset: float
    weight_slope: float
    separator: str | None
    header: bool


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How a table becomes interactions.

    Where there is no column user_id or item_id, another usual name as userId or movieId is taken if there is one such
    column. `rating` is the column that `min_rating` cuts, the one called rating, stars or score unless given; where
    there is one, either `min_rating` or `any_rating` is wanted. `separator` and `header` are of text files: the
    separator follows from the ending unless given; without a header columns are named by their place, "1" being the
    first, and users, items and ratings are the first three unless given. A pair whose events merge to r, 1 where
    there is no `weight`, weighs `weight_offset` + `weight_slope`·r.
    """

    user: str = "user_id"
    item: str = "item_id"
    weight: str | None = None
    time: str | None = None
    rating: str | None = None
    min_rating: float | None = None
    any_rating: bool = False
    min_interactions: int | None = None
    merge: Merge = "max"
    weight_offset: float = 0.0
    weight_slope: float = 1.0
    separator: str | None = None
    header: bool = True

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
        for name in ("any_rating", "header"):
            if not isinstance(getattr(self, name), bool):
                raise SettingError(f"{name} is {getattr(self, name)!r}; it must be True or False.")
        if self.any_rating and self.min_rating is not None:
            raise SettingError(
                "Both min_rating (--min-rating) and any_rating (--any-rating) came; one of them is wanted."
            )
        apart = self.separator
        if apart is not None and not (isinstance(apart, str) and apart and not set(apart) & set('\r\n"')):
            raise SettingError(
                f"separator is {apart!r}; it must be what stands between two fields, as ';' or '::', and neither a "
                f"quotation mark nor the end of a line."
            )
        _ = self.weighing  # checks both numbers
        if self.merge not in MERGES:
            raise SettingError(f"merge is {self.merge!r}; it must be one of {', '.join(MERGES)}.")

    @property
    def weighing(self) -> Weighing:
        """How the weight of a pair comes of its merged events."""
        return Weighing(self.weight_offset, self.weight_slope)

    @property
    def columns(self) -> dict[str, str]:
        """The columns that have to be there, by the setting that names them."""
        named = {"user": self.user, "item": self.item, "weight": self.weight, "time": self.time}
        if self.min_rating is not None:
            named["rating"] = self.rating or "rating"
        return {setting: column for setting, column in named.items() if column is not None}

    def with_options(self, options: Mapping[str, Any]) -> ReadOptions:
        """The same options, some settings replaced; of `min_rating` and `any_rating` the new one."""
        settings = self.to_dict() | dict(options)
        if options.get("min_rating") is not None and "any_rating" not in options:
            settings["any_rating"] = False
        if options.get("any_rating") and "min_rating" not in options:
            settings["min_rating"] = None
        return ReadOptions.from_dict(settings)

    def as_trained(self) -> ReadOptions:
        """The options of data that a model was trained on: where none was too low, any rating was taken."""
        return self if self.min_rating is not None else self.with_options({"any_rating": True})

    def pairs_alone(self) -> ReadOptions:
        """The same for who has what, however it was rated or weighed and however rare it is."""
        return self.with_options(
            {"weight": None, "time": None, "rating": None, "any_rating": True, "merge": "max"}
            | {"weight_offset": 0.0, "weight_slope": 1.0, "min_interactions": None}
        )

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
