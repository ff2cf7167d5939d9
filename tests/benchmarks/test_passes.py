"""The operations of a pass are those of its kernels."""

from __future__ import annotations

import pytest

from benchmarks.passes import operations_done


@pytest.mark.parametrize(("dim", "tiles"), [(16, 4), (64, 40), (128, 144)])
def test_an_entry_costs_the_tiles_of_one_half_of_its_matrix(dim: int, tiles: int) -> None:
    of_entry = operations_done(1, 0, dim)
    assert of_entry == tiles * 4 * 16 * 2 + 3 * dim
    assert dim * (dim + 1) < of_entry < 2 * dim**2 + 3 * dim + 1


@pytest.mark.parametrize("dim", [64, 128])
def test_a_row_costs_about_what_a_factorisation_of_cholesky_does(dim: int) -> None:
    factorisation = operations_done(0, 1, dim) - 2 * dim**2
    assert dim**3 / 3 < factorisation < 1.6 * dim**3 / 3


def test_operations_add_up() -> None:
    assert operations_done(30, 5, 64) == 30 * operations_done(1, 0, 64) + 5 * operations_done(0, 1, 64)
