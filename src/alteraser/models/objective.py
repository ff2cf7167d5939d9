"""The objective shared by the quadratic family: how positives, missing entries and norms are weighted.

L = Σ_{(u,v)∈R} w_uv (1 − ŷ_uv)²  +  w0 Σ_{(u,v)∉R} a_u b_v ŷ_uv²  +  Σ_u λ_u ‖p_u‖² + Σ_v λ_v ‖q_v‖²
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions, Side
from alteraser.errors import SettingError
from alteraser.models.defaults import ITEM_POPULARITY, L2_SCALING, USER_ACTIVITY


@dataclass(frozen=True)
class Rule:
    """How w0 and l2 follow from the data where nobody gives them; the values come from `python -m studies defaults`.

    w0 is `w0_factor` times the square root of the share of pairs that are positives, times their mean weight. l2 is
    `tightness` times the noise edge of the objective with that w0.
    """

    w0_factor: float = 0.7
    tightness: float = 0.3

    def w0(self, data: Interactions) -> float:
        by_user, by_item = data.by(Side.USERS), data.by(Side.ITEMS)
        density = by_user.n_entries / (len(by_user.occupied) * len(by_item.occupied))
        return self.w0_factor * math.sqrt(density) * float(by_user.weights.mean(dtype=np.float64))


RULE = Rule()


@dataclass(frozen=True, eq=False)
class Weights:
    """The objective's weights for one data set: of each row, its factor in missing entries' weights and its penalty."""

    missing: dict[Side, NDArray[np.float64]]  # w0·a_u of users, b_v of items
    l2: dict[Side, NDArray[np.float64]]  # λ_u, λ_v


@dataclass(frozen=True)
class Objective:
    """Settings of L. Weights follow the counts of the data at hand, so that nothing forgotten survives in them.

    a_u = (|R_u| / mean_user_count)^user_activity, b_v = (|R_v| / mean_item_count)^item_popularity: with exponents 0
    all missing entries weigh w0. λ_u = l2·(|R_u| + c_users)^l2_scaling, λ_v alike: 0 is plain L2.

    No w0 and l2 fit all data: `for_data` has them follow from it. The mean counts and c_users, c_items are constants of
    the training data, which `scaled_to` sets. A c that is None is w0 times the rows of the other table.
    """

    w0: float
    l2: float
    l2_scaling: float = L2_SCALING
    user_activity: float = USER_ACTIVITY
    item_popularity: float = ITEM_POPULARITY
    mean_user_count: float = 1.0
    mean_item_count: float = 1.0
    c_users: float | None = None
    c_items: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.name in ("c_users", "c_items"):
                continue
            if not (isinstance(value, int | float) and math.isfinite(value) and value >= 0):
                raise SettingError(f"{field.name} is {value!r}; a finite number from 0 up is wanted.")
        if self.l2 == 0:
            raise SettingError(
                "l2 is 0; a number above 0 is wanted, or rows with few interactions have no single answer."
            )
        if self.mean_user_count == 0 or self.mean_item_count == 0:
            raise SettingError(
                "A mean count is 0; the mean number of interactions of the training data is wanted."
            )

    @classmethod
    def for_data(
        cls,
        data: Interactions,
        *,
        w0: float | None = None,
        l2: float | None = None,
        rule: Rule = RULE,
        **settings: float,
    ) -> Self:
        """Settings that follow from `data` by a rule where they are not given.

        `choose_objective` looks for better ones on a slice of the data.
        """
        w0 = two_digits(rule.w0(data)) if w0 is None else w0
        probe = cls(w0=w0, l2=1.0, **settings).scaled_to(data)
        return replace(probe, l2=two_digits(rule.tightness * probe.noise_edge(data)) if l2 is None else l2)

    def noise_edge(self, data: Interactions) -> float:
        """The l2 up to which a model would learn from noise alone, whatever this objective's own l2 is.

        Around the empty model a direction grows where the matrix of positives, each over √((|R_u| + c_users)^ν ·
        (|R_v| + c_items)^ν), has a singular value above l2. Were these counts all there is to the data, its entries
        would vary like x_u·y_v with x_u = |R_u| / (|R_u| + c_users)^ν, y_v alike, and its singular values would reach
        up to about √(Σx·ȳ/n) + √(Σy·x̄/n), x̄ and ȳ being means weighted by themselves and n the positives.
        """
        by_side = {side: data.by(side) for side in Side}
        square = float(np.square(by_side[Side.USERS].weights, dtype=np.float64).sum())
        n = by_side[Side.USERS].n_entries
        x, y = (
            each.counts[each.occupied]
            / (each.counts[each.occupied] + self.penalty_constant(side, len(by_side[side.other])))
            ** self.l2_scaling
            for side, each in by_side.items()
        )
        height, width = (
            float(np.square(one).sum() / one.sum() * other.sum()) for one, other in ((x, y), (y, x))
        )
        return (math.sqrt(height) + math.sqrt(width)) * math.sqrt(square) / n

    def scaled_to(self, data: Interactions) -> Self:
        """The same settings with the constants of `data`, which stay when data is later deleted.

        They keep two digits: with more of them a model would tell, once something was forgotten, how much that was.
        A c_users or c_items that is given stays as it is; to have it follow another w0 or other data, set it to None.
        """
        by_user, by_item = data.by(Side.USERS), data.by(Side.ITEMS)
        return replace(
            self,
            mean_user_count=two_digits(by_user.n_entries / len(by_user.occupied)),
            mean_item_count=two_digits(by_item.n_entries / len(by_item.occupied)),
            c_users=two_digits(self.w0 * data.n_items) if self.c_users is None else self.c_users,
            c_items=two_digits(self.w0 * data.n_users) if self.c_items is None else self.c_items,
        )

    def weigh(self, data: Interactions) -> Weights:
        """The weights of every row of `data`."""
        counts = {side: data.by(side).counts for side in Side}
        by_row = {side: self.weights_of_rows(side, counts[side], len(counts[side.other])) for side in Side}
        return Weights(
            missing={side: missing for side, (missing, _) in by_row.items()},
            l2={side: l2 for side, (_, l2) in by_row.items()},
        )

    def weights_of_rows(
        self, side: Side, counts: NDArray[np.int64], n_others: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of rows with these counts, the factor in missing entries' weights (w0 is in the users') and the penalty."""
        number = counts.astype(np.float64)
        c = self.penalty_constant(side, n_others)
        if side is Side.USERS:
            missing = self.w0 * (number / self.mean_user_count) ** self.user_activity
        else:
            missing = (number / self.mean_item_count) ** self.item_popularity
        return missing, self.l2 * (number + c) ** self.l2_scaling

    def penalty_constant(self, side: Side, n_others: int) -> float:
        """What is added to a row's count in its penalty, where the other side has so many rows."""
        c = self.c_users if side is Side.USERS else self.c_items
        return self.w0 * n_others if c is None else c

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def noise_edge_at(w0: float, data: Interactions, **settings: float) -> float:
    """The noise edge of an objective with this w0, its constants following from `data`."""
    return Objective(w0=w0, l2=1.0, **settings).scaled_to(data).noise_edge(data)


def two_digits(number: float) -> float:
    """The number rounded to two digits, so that it tells little of the data it comes from."""
    return float(f"{number:.2g}")
