"""Sums over entries against plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from alteraser.kernels.entries import batch_gradients, entry_scores, entry_sums, row_losses
from alteraser.kernels.sparse import FixedFactors, SparseRows

STARTS = np.array([0, 2, 2, 5, 6])
COLUMNS = np.array([0, 3, 1, 2, 3, 1], dtype=np.int32)
WEIGHTS = np.array([1.0, 0.25, 2.0, 0.0, 1.5, 1.0], dtype=np.float32)
ROWS = SparseRows.from_csr(STARTS, COLUMNS, WEIGHTS)
# The same rows in another order of memory, with room between them that nobody may read.
SPACED = SparseRows(
    starts=np.array([5, 0, 1, 9]),
    stops=np.array([7, 0, 4, 10]),
    columns=np.array([-1, 1, 2, 3, -1, 0, 3, -1, -1, 1, -1], dtype=np.int32),
    weights=np.array([np.nan, 2, 0, 1.5, np.nan, 1, 0.25, np.nan, np.nan, 1, np.nan], dtype=np.float32),
)

layouts = pytest.mark.parametrize("rows", [ROWS, SPACED], ids=["compressed", "spaced"])
tables = pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-12), (np.float32, 2e-5)])


def random_tables(dtype: Any) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    tables = rng.normal(size=(4, 5)), rng.normal(size=(4, 5)), rng.random(4), rng.random(4)
    return tuple(table.astype(dtype) for table in tables)


@layouts
@tables
def test_losses_and_gradients_are_those_of_a_loop(rows: SparseRows, dtype: Any, rtol: float) -> None:
    own, fixed, missing_row, missing_column = random_tables(dtype)
    losses, own_slopes, fixed_slopes = np.zeros(4), np.zeros(own.shape), np.zeros(fixed.shape)
    for row in range(4):
        for entry in range(STARTS[row], STARTS[row + 1]):
            c, w = COLUMNS[entry], float(WEIGHTS[entry])
            m = float(missing_row[row]) * float(missing_column[c])
            score = float(own[row].astype(float) @ fixed[c].astype(float))
            losses[row] += w * (1 - score) ** 2 - m * score**2
            slope = -2 * w * (1 - score) - 2 * m * score
            own_slopes[row] += slope * fixed[c]
            fixed_slopes[c] += slope * own[row]

    factors = FixedFactors(fixed, missing_column)
    found = row_losses(rows, own, fixed, missing_row.astype(np.float64), missing_column.astype(np.float64))
    np.testing.assert_allclose(found, losses, rtol=rtol, atol=rtol)

    chosen = np.array([2, 1, 0, 3])
    loss, own_gradient, fixed_gradient = batch_gradients(chosen, rows, own, factors, missing_row)
    assert loss == pytest.approx(losses.sum(), rel=10 * rtol)
    np.testing.assert_allclose(own_gradient, own_slopes[chosen], rtol=10 * rtol, atol=rtol)
    np.testing.assert_allclose(fixed_gradient, fixed_slopes, rtol=10 * rtol, atol=rtol)


@layouts
@tables
def test_scores_and_their_transpose(rows: SparseRows, dtype: Any, rtol: float) -> None:
    own, fixed, *_ = random_tables(dtype)
    chosen, first = np.array([2, 1, 0]), np.array([0, 3, 3, 5])
    columns = [1, 2, 3, 0, 3]
    owners = [0, 0, 0, 2, 2]
    scores = np.empty(5, dtype)
    entry_scores(chosen, first, rows, own[:3], fixed, scores)
    wanted = [own[i] @ fixed[c] for i, c in zip(owners, columns, strict=True)]
    np.testing.assert_allclose(scores, wanted, rtol=rtol, atol=rtol)

    values = np.arange(1, 6).astype(dtype)
    sums = np.full((3, 5), np.nan, dtype)
    entry_sums(chosen, first, rows, values, fixed, sums)
    expected = np.zeros((3, 5))
    for i, c, value in zip(owners, columns, values, strict=True):
        expected[i] += value * fixed[c]
    np.testing.assert_allclose(sums, expected, rtol=rtol, atol=rtol)


@pytest.mark.usefixtures("all_threads")
def test_threads_do_not_race_on_a_shared_column() -> None:
    """Every row points at the one column, so that lost additions would show."""
    n = 20000
    rows = SparseRows.from_csr(np.arange(n + 1), np.zeros(n, np.int32), np.ones(n, np.float32))
    fixed = FixedFactors(np.zeros((1, 2)), np.zeros(1))
    _, _, slopes = batch_gradients(np.arange(n), rows, np.ones((n, 2)), fixed, np.zeros(n))
    assert slopes.tolist() == [[-2.0 * n, -2.0 * n]]
