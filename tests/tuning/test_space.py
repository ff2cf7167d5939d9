"""Search spaces: what is refused, what is tried first, and what is written down."""

from __future__ import annotations

from typing import Any

import pytest

import alteraser as ae
from alteraser.errors import SettingError
from alteraser.models.objective import Rule
from alteraser.tuning.space import Range, SearchSpace

WIDE = Range(1e-4, 1.0)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("0.001:0.1", Range(0.001, 0.1)), ("0.3", Range(0.3, 0.3)), ("1e-3:1", Range(0.001, 1))],
)
def test_ranges_are_typed_with_a_colon(text: str, wanted: Range) -> None:
    assert Range.parse(text, "w0") == wanted


@pytest.mark.parametrize("text", ["", ":", "0.1:", "a:b", "0.1:0.2:0.3", "0.1-0.2"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(SettingError, match="LOW:HIGH is wanted"):
        Range.parse(text, "w0")


@pytest.mark.parametrize(
    ("ranges", "said"),
    [
        ({"w0": Range(0.3, 0.1)}, "w0 .* from 0.3 to 0.1: that is an empty search space"),
        ({"l2": Range(float("nan"), 1.0)}, "empty search space"),
        ({"l2": Range(-1.0, 1.0)}, "empty search space"),
        ({"w0": Range(0.0, 1.0)}, "w0 .* from 0; a number above 0"),
        ({"dim": Range(8, 12.5)}, "whole numbers"),
        ({"w0": Range(0.1, 0.1), "l2": Range(0.1, 0.1)}, "Every setting is fixed"),
    ],
)
def test_an_empty_space_is_refused(ranges: dict[str, Range], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        SearchSpace(**ranges)


def test_ranges_reach_far_around_what_the_data_suggest(random_data: Any) -> None:
    data = random_data(60, 40, density=0.1)
    usual = ae.Objective.for_data(data)
    space = SearchSpace().around(data)
    w0, l2 = space.ranges["w0"], space.ranges["l2"]
    assert w0.low < usual.w0 / 20
    assert 1 >= w0.high > 2 * usual.w0
    assert l2.low < usual.l2 / 5
    assert l2.high > 5 * usual.l2
    assert SearchSpace(w0=Range(0.2, 0.3)).around(data).w0 == Range(0.2, 0.3)


def test_the_first_points_lie_within_the_ranges(random_data: Any) -> None:
    data = random_data(60, 40, density=0.1)
    usual = ae.Objective.for_data(data, rule=Rule(w0_factor=1.0, tightness=0.3))
    assert usual.w0 == pytest.approx((data.by(ae.Side.USERS).n_entries / (60 * 40)) ** 0.5, rel=0.05)
    first = next(SearchSpace().around(data).initial_points(data))
    assert first["w0"] == usual.w0
    assert first["l2"] == pytest.approx(usual.l2, rel=0.05)
    narrow = SearchSpace(w0=Range(0.02, 0.05), l2=Range(0.01, 0.01), dim=Range(4, 32), l2_scaling=Range(0, 1))
    points = list(narrow.around(data).initial_points(data))
    assert {point["w0"] for point in points} <= {0.02, 0.05, 0.1 * usual.w0, 0.3 * usual.w0}
    assert all(0.02 <= point["w0"] <= 0.05 for point in points)
    assert all(point["dim"] == 32 and point["l2_scaling"] == 1 and "l2" not in point for point in points)
    assert len({point["w0"] for point in points}) == len(points)


def test_settings_have_three_digits_and_stay_within_their_range() -> None:
    space = SearchSpace(w0=Range(0.0012345, 1.0), l2=WIDE, dim=Range(8, 64))
    settings = space.rounded({"w0": 0.0012345, "l2": 0.0123456, "dim": 17})
    assert settings == {
        "w0": 0.0012345,  # 0.00123 would lie below
        "l2": 0.0123,
        "l2_scaling": 1.0,
        "user_activity": 0.0,
        "item_popularity": 0.0,
        "dim": 17,
    }
    assert isinstance(settings["dim"], int)


def test_a_best_setting_at_a_limit_is_told() -> None:
    space = SearchSpace(w0=Range(0.01, 0.1), l2=WIDE)
    assert space.at_edge({"w0": 0.1, "l2": 0.01}) == ["w0"]
    assert space.at_edge({"w0": 0.05, "l2": 0.0001}) == ["l2"]
    assert space.at_edge({"w0": 0.05, "l2": 0.01}) == []
