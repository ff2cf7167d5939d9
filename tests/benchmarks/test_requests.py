"""What is computed of one user's requests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from alteraser.data.interactions import Interactions
from benchmarks.requests import half_of, speed_ups


def test_a_speed_up_is_a_retraining_over_the_median_request_of_its_round() -> None:
    seconds = [0.01, 0.02, 5.0, 0.1, 0.2, 0.3]
    assert speed_ups(seconds, [2.0, 4.0]) == pytest.approx([100.0, 20.0])


def test_requests_that_do_not_divide_evenly_go_to_the_first_rounds() -> None:
    assert speed_ups([1.0, 3.0, 2.0], [4.0, 4.0]) == pytest.approx([2.0, 2.0])


def test_half_a_history_is_the_users_own(random_data: Callable[..., Interactions]) -> None:
    data = random_data(20, 15, seed=1)
    for user in range(5):
        mask = half_of(data, user, np.random.default_rng(0)).match(data).mask
        assert set(data.users[mask]) == {user}
        assert mask.sum() == (data.users == user).sum() // 2
