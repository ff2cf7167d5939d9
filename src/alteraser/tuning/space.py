"""Where settings are looked for, and where the search begins."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from alteraser.data.interactions import Interactions, Side
from alteraser.errors import SettingError
from alteraser.models.defaults import DEFAULTS, DIM, ITEM_POPULARITY, L2_SCALING, USER_ACTIVITY
from alteraser.models.objective import Rule, noise_edge_at, two_digits

Settings = dict[str, Any]  # a value for each name of a `SearchSpace`

# The initial design: w0 as a multiple of the square root of the density, and l2 as a share of the noise edge there. On
# public data sets from dense to sparse the best lie between 0.16 and 2 times that w0, and 0.1 and 1.6 times the edge.
ROOT_DENSITY = Rule(w0_factor=1.0)
INITIAL_DESIGN = ((1.0, 0.3), (0.3, 0.5), (1.0, 0.8), (0.3, 0.15), (3.0, 0.5), (0.1, 0.3))
# How far the ranges of w0 and l2 reach, in the same measures, unless they are given.
W0_REACH = (1 / 30, 10.0)
L2_REACH = (0.03, 3.0)
DIGITS = 3  # of every setting that is tried: what is written down is what was measured
LOGARITHMIC = ("w0", "l2", "dim")
_LIMIT_MARGIN = 1.05  # a value within 5 % of a limit lies at it


@dataclass(frozen=True)
class Range:
    """From `low` to `high`, both included; one and the same is a setting that is fixed."""

    low: float
    high: float

    @classmethod
    def parse(cls, text: str, name: str) -> Self:
        """LOW:HIGH, or one value."""
        low, _, high = text.partition(":")
        try:
            return cls(float(low), float(high if ":" in text else low))
        except ValueError:
            raise SettingError(
                f"{name} is {text!r}; LOW:HIGH is wanted, as in 0.001:0.1, or one number to keep."
            ) from None

    @property
    def fixed(self) -> bool:
        return self.low == self.high

    def clipped(self, value: float) -> float:
        return min(max(value, self.low), self.high)


@dataclass(frozen=True)
class SearchSpace:
    """A range for each setting; w0, l2 and dim are looked for on a logarithmic scale.

    Where w0 or l2 is None, its range follows from the data (`around`).
    """

    w0: Range | None = None
    l2: Range | None = None
    l2_scaling: Range = Range(L2_SCALING, L2_SCALING)
    user_activity: Range = Range(USER_ACTIVITY, USER_ACTIVITY)
    item_popularity: Range = Range(ITEM_POPULARITY, ITEM_POPULARITY)
    dim: Range = Range(DIM, DIM)

    def __post_init__(self) -> None:
        for name, each in self.ranges.items():
            if not (math.isfinite(each.low) and math.isfinite(each.high) and 0 <= each.low <= each.high):
                raise SettingError(
                    f"{name} was to be looked for from {each.low:g} to {each.high:g}: that is an empty search space. "
                    f"LOW:HIGH is wanted, from 0 up and LOW not above HIGH."
                )
            if each.low == 0 and name in LOGARITHMIC:
                raise SettingError(f"{name} was to be looked for from 0; a number above 0 is wanted.")
        if self.dim.low % 1 or self.dim.high % 1:
            raise SettingError(f"dim is {self.dim.low:g}:{self.dim.high:g}; whole numbers are wanted.")
        if self.w0 and self.l2 and not self.searched:
            raise SettingError(
                "Every setting is fixed: that is an empty search space. Leave one to be looked for, as w0=Range(0.001, "
                "0.1) (--w0 0.001:0.1)."
            )

    @property
    def ranges(self) -> dict[str, Range]:
        """The ranges that are known."""
        every = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: each for name, each in every.items() if each is not None}

    @property
    def searched(self) -> dict[str, Range]:
        """The ranges of what is not fixed."""
        return {name: each for name, each in self.ranges.items() if not each.fixed}

    def around(self, data: Interactions) -> SearchSpace:
        """The same with ranges of w0 and l2, wide ones around the square root of the density and the noise edge."""
        w0 = self.w0
        if w0 is None:
            centre, of_positives = self._central_w0(data), float(data.by(Side.USERS).weights.mean())
            # A missing entry that weighs more than a positive is no longer worth a trial.
            w0 = Range(
                two_digits(W0_REACH[0] * centre),
                two_digits(min(W0_REACH[1] * centre, max(centre, of_positives))),
            )
        l2 = self.l2
        if l2 is None:
            low, high = (
                share * self.noise_edge(data, limit)
                for share, limit in zip(L2_REACH, (w0.high, w0.low), strict=True)
            )
            l2 = Range(two_digits(low), two_digits(high))
        return replace(self, w0=w0, l2=l2)

    def share_of_noise_edge(self, noise_edge: Callable[[float], float]) -> Range:
        """The range of l2 as a share of the noise edge at its w0: from that at the highest w0 to that at the lowest."""
        w0, l2 = self.ranges["w0"], self.ranges["l2"]
        low, high = l2.low / noise_edge(w0.high), l2.high / noise_edge(w0.low)
        if low < high:
            return Range(low, high)
        return Range(l2.low / noise_edge(w0.low), l2.high / noise_edge(w0.high))

    def initial_points(self, data: Interactions) -> Iterator[dict[str, float]]:
        """The initial design within the ranges; settings other than w0 and l2 are at their defaults."""
        others = {name: DEFAULTS.get(name, each.low) for name, each in self.searched.items()}
        centre, tried = self._central_w0(data), []
        for factor, tightness in INITIAL_DESIGN:
            w0 = self.ranges["w0"].clipped(factor * centre)
            point = others | {"w0": w0, "l2": tightness * self.noise_edge(data, w0)}
            point = {name: each.clipped(point[name]) for name, each in self.searched.items()}
            if point not in tried:
                tried.append(point)
                yield point

    def rounded(self, values: Mapping[str, float]) -> Settings:
        """All settings: the values given, rounded but within their ranges, and what is fixed."""
        full = {name: each.low for name, each in self.ranges.items()} | dict(values)
        settings: Settings = {
            name: self.ranges[name].clipped(float(f"{value:.{DIGITS}g}")) for name, value in full.items()
        }
        return settings | {"dim": round(full["dim"])}

    def at_edge(self, settings: Mapping[str, float]) -> list[str]:
        """Of w0 and l2, those that lie at a limit, beyond which there may be better ones."""
        return [
            name
            for name, each in self.searched.items()
            if name in ("w0", "l2")
            and not each.low * _LIMIT_MARGIN < settings[name] < each.high / _LIMIT_MARGIN
        ]

    def _central_w0(self, data: Interactions) -> float:
        """The w0 that range and initial points lie around: the square root of the density, unless it is fixed."""
        if self.w0 is not None and self.w0.fixed:
            return self.w0.low
        return two_digits(ROOT_DENSITY.w0(data))

    def noise_edge(self, data: Interactions, w0: float) -> float:
        """The noise edge at a w0, the exponents being where the search begins."""
        return noise_edge_at(w0, data, **self._exponents)

    @property
    def _exponents(self) -> dict[str, float]:
        """The other settings of an objective, each where the search begins."""
        names = ("l2_scaling", "user_activity", "item_popularity")
        return {name: self.ranges[name].clipped(DEFAULTS[name]) for name in names}
