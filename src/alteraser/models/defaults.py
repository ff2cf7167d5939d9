"""The default settings of models and their training; w0 and l2 have none, as they follow from the data."""

from __future__ import annotations

DIM = 64
# Exponents: the penalty grows with a row's count, all missing entries weigh the same.
L2_SCALING, USER_ACTIVITY, ITEM_POPULARITY = 1.0, 0.0, 0.0
DEFAULTS: dict[str, float] = {
    "l2_scaling": L2_SCALING,
    "user_activity": USER_ACTIVITY,
    "item_popularity": ITEM_POPULARITY,
    "dim": DIM,
}
