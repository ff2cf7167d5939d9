"""When training is over."""

from __future__ import annotations

import pytest

from alteraser.train.stopping import EarlyStopping


def run(
    losses: list[float], patience: int = 2, min_improvement: float = 0.1
) -> tuple[list[bool], int | None]:
    """Which losses counted as better, and after which training was over."""
    stopping, better = EarlyStopping(patience, min_improvement), []
    for epoch, loss in enumerate(losses, start=1):
        better.append(stopping.improved(loss))
        if stopping.over:
            return better, epoch
    return better, None


@pytest.mark.parametrize(
    ("losses", "better", "over"),
    [
        ([10, 8, 6, 5], [True, True, True, True], None),
        ([10, 10, 10, 1], [True, False, False], 3),
        ([10, 9.5, 9.2, 1], [True, False, False], 3),  # each below the last, but none by a tenth of the best
        (
            [10, 9.5, 8.9, 8.8],
            [True, False, True, False],
            None,
        ),  # against the best that counted, not the last
        ([10, 11, 8, 9, 7], [True, False, True, False, True], None),
        ([0.0, 0.0, 0.0], [True, False, False], 3),
    ],
)
def test_over_when_patience_ends(losses: list[float], better: list[bool], over: int | None) -> None:
    assert run(losses) == (better, over)


def test_patience_counts_epochs_in_a_row() -> None:
    assert run([10, 10, 5, 5, 5, 1], patience=2)[1] == 5
    assert run([10, 10, 5, 5, 5, 1], patience=3)[1] is None


def test_a_loss_that_is_not_a_number_is_no_improvement() -> None:
    assert run([10, float("nan"), float("nan")])[0] == [True, False, False]
