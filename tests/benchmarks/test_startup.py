"""Start-up is told in seconds against its limits, and as a ratio to a bare Python of the same round."""

from __future__ import annotations

import pytest

from benchmarks import page
from benchmarks.startup import LIMITS, summary

SECONDS = {
    "python": [0.2, 0.4, 0.3],
    "help": [0.2, 0.4, 0.3],
    "recommend": [0.4, 0.8, 1.5],
    "recommend, seen items included": [0.2, 0.4, 0.6],
    "forget": [3.0, 2.0, 3.0],
}


def test_a_ratio_is_that_of_one_round() -> None:
    found = summary(SECONDS)
    assert found["ratios"] == pytest.approx(
        {"help": 1.0, "recommend": 2.0, "recommend, seen items included": 1.0, "forget": 10.0}
    )
    assert found["median_seconds"]["recommend"] == 0.8


@pytest.mark.parametrize("name", LIMITS)
def test_a_miss_is_shown_as_a_miss(name: str) -> None:
    at_its_limits = summary(SECONDS | {each: [limit] * 3 for each, limit in LIMITS.items()})
    assert "**no**" not in "".join(page.SECTIONS["startup"](at_its_limits))
    late = at_its_limits["median_seconds"] | {name: LIMITS[name] * 1.001}
    assert "".join(page.SECTIONS["startup"](at_its_limits | {"median_seconds": late})).count("**no**") == 1
