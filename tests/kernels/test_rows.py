"""The fused ridge kernel against a plain dense solve of the normal equations."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from alteraser.kernels.entries import add_residuals
from alteraser.kernels.rows import CHUNK, factorise_rows, solve_rows, substitute_rows
from alteraser.kernels.sparse import FixedFactors, RowWeights, SparseRows, longest_first
from alteraser.kernels.tiles import padded

N_COLUMNS = 700
# No entry, one, around a multiple of four, around one chunk and several, nearly all columns, all of them.
COUNTS = (0, 1, 2, 3, 4, 5, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 2, N_COLUMNS - 1, N_COLUMNS)


class Ridge:
    """Compressed rows of the given lengths with random weights, some below what a missing entry weighs."""

    def __init__(self, dim: int, *, missing: float = 0.5, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.starts = np.concatenate([[0], np.cumsum(COUNTS)]).astype(np.int64)
        self.columns = np.concatenate(
            [np.sort(rng.choice(N_COLUMNS, n, replace=False)) for n in COUNTS]
        ).astype(np.int32)
        self.weights = (rng.integers(0, 64, len(self.columns)) / 32).astype(np.float32)
        self.fixed = rng.normal(size=(N_COLUMNS, dim)) / np.sqrt(dim)
        self.missing_row = missing * rng.uniform(0.5, 2, len(COUNTS))
        self.missing_column = rng.uniform(0.5, 2, N_COLUMNS)
        self.ridge = rng.uniform(0.5, 2, len(COUNTS))

    def solve(self, rows: NDArray[np.int64], dtype: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        entries = SparseRows.from_csr(self.starts, self.columns, self.weights)
        fixed, gram, weights = self.given(dtype)
        return solve_rows(rows, entries, fixed=fixed, gram=gram, weights=weights)

    def given(self, dtype: Any) -> tuple[FixedFactors, NDArray[Any], RowWeights]:
        gram = (self.fixed * self.missing_column[:, None]).T @ self.fixed
        fixed = FixedFactors(self.fixed.astype(dtype), self.missing_column.astype(dtype))
        weights = RowWeights(self.missing_row.astype(dtype), self.ridge.astype(dtype))
        return fixed, gram.astype(dtype), weights

    def spaced(self) -> SparseRows:
        """The same rows with room behind each of them, which nobody may read."""
        room = np.repeat(self.starts[1:], 3)
        starts = self.starts[:-1] + 3 * np.arange(len(COUNTS))
        columns, weights = np.insert(self.columns, room, -1), np.insert(self.weights, room, np.nan)
        return SparseRows(starts, starts + COUNTS, columns, weights)

    def answer(self, row: int) -> NDArray[np.float64]:
        """With a confidence for every column, as if nothing were sparse."""
        own = slice(self.starts[row], self.starts[row + 1])
        confidence = self.missing_row[row] * self.missing_column
        wanted = np.zeros(N_COLUMNS)
        confidence[self.columns[own]] = self.weights[own]
        wanted[self.columns[own]] = 1
        matrix = (self.fixed * confidence[:, None]).T @ self.fixed
        matrix += self.ridge[row] * np.eye(self.fixed.shape[1])
        answer: NDArray[np.float64] = np.linalg.solve(matrix, self.fixed.T @ (confidence * wanted))
        return answer


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 33, 61, 64])
@pytest.mark.parametrize("missing", [0.0, 0.1, 3.0])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-8), (np.float32, 1e-4)])
def test_rows_are_those_of_a_dense_solve(dim: int, missing: float, dtype: Any, tolerance: float) -> None:
    ridge = Ridge(dim, missing=missing)
    rows = np.arange(len(COUNTS))
    vectors, solved = ridge.solve(rows, dtype)
    assert vectors.dtype == dtype
    assert solved.all()
    for row in range(len(COUNTS)):
        answer = ridge.answer(row)
        assert np.linalg.norm(vectors[row] - answer) <= tolerance * np.linalg.norm(answer), COUNTS[row]


def test_an_empty_row_is_exactly_zero() -> None:
    vectors, _ = Ridge(8).solve(np.array([0]), np.float32)
    assert not vectors.view(np.uint32).any()


@pytest.mark.usefixtures("all_threads")
def test_neither_order_nor_company_nor_threads_change_a_row() -> None:
    ridge = Ridge(61)
    rows = np.arange(len(COUNTS))
    together, _ = ridge.solve(rows, np.float32)
    shuffled = np.random.default_rng(0).permutation(rows)
    np.testing.assert_array_equal(ridge.solve(shuffled, np.float32)[0], together[shuffled])
    for row in rows:
        np.testing.assert_array_equal(ridge.solve(np.array([row]), np.float32)[0][0], together[row])
    numba.set_num_threads(1)
    np.testing.assert_array_equal(ridge.solve(rows, np.float32)[0], together)


@pytest.mark.parametrize("dim", [1, 3, 8])
def test_a_matrix_that_is_not_positive_is_reported_and_harms_no_neighbour(dim: int) -> None:
    ridge = Ridge(dim, missing=0.0)
    ridge.ridge[0] = 0.0  # no entries, no missing weight, no penalty: nothing determines this row
    vectors, solved = ridge.solve(np.array([3, 0, 9]), np.float64)
    assert solved.tolist() == [True, False, True]
    np.testing.assert_allclose(vectors[0], ridge.answer(3), rtol=1e-8)
    np.testing.assert_allclose(vectors[2], ridge.answer(9), rtol=1e-8)


def test_a_nan_in_the_table_is_reported_not_hidden() -> None:
    ridge = Ridge(8)
    ridge.fixed[ridge.columns[ridge.starts[4]]] = np.nan
    _, solved = ridge.solve(np.array([4]), np.float64)
    assert not solved.any()


def test_room_behind_a_row_is_not_read() -> None:
    ridge, rows = Ridge(61), np.arange(len(COUNTS))
    fixed, gram, weights = ridge.given(np.float32)
    vectors, solved = solve_rows(rows, ridge.spaced(), fixed=fixed, gram=gram, weights=weights)
    assert solved.all()
    np.testing.assert_array_equal(vectors, ridge.solve(rows, np.float32)[0])


def test_answers_stand_in_the_order_of_the_chosen_rows() -> None:
    """The factors of some rows solve their normal equations, and their residuals vanish at the minimum."""
    ridge, chosen = Ridge(8), np.array([9, 3, 0, 10])
    rows, (fixed, gram, weights) = ridge.spaced(), ridge.given(np.float64)
    schedule = longest_first(chosen, rows)
    assert schedule.rows.tolist() == [10, 9, 3, 0]

    factors, solved = np.empty((len(chosen), padded(8) ** 2)), np.zeros(len(chosen), np.bool_)
    factorise_rows(schedule, rows, fixed, gram, weights, factors, solved)
    assert solved.all()
    table, residuals = np.full((len(COUNTS), 8), np.nan), np.zeros((len(chosen), 8))
    table[chosen] = 0
    add_residuals(schedule, rows, table, fixed, weights.missing, residuals)  # Σ w x, the right-hand side
    substitute_rows(factors, residuals)
    answers = np.array([ridge.answer(row) for row in chosen])
    np.testing.assert_allclose(residuals, answers, rtol=1e-8, atol=1e-12)

    table[chosen] = answers
    residuals = -weights.missing[chosen, None] * (answers @ gram) - weights.ridge[chosen, None] * answers
    scale = np.abs(residuals).max()
    add_residuals(schedule, rows, table, fixed, weights.missing, residuals)
    assert np.abs(residuals).max() < 1e-12 * scale * len(ridge.columns)
