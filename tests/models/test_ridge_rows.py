"""Rows solved by the fused kernel: right on both sides, in any block, and in double precision where single fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from alteraser.data.interactions import Side
from alteraser.errors import ModelError
from alteraser.models.mf import MF
from alteraser.models.objective import Objective


@pytest.mark.parametrize("dim", [1, 3, 8, 61, 64])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-8), (torch.float32, 1e-4)])
@pytest.mark.parametrize("side", list(Side), ids=lambda side: side.value)
def test_minimum_is_that_of_a_dense_solve(
    dim: int,
    dtype: torch.dtype,
    tolerance: float,
    side: Side,
    random_data: Any,
    transposed: Any,
    small_model: Any,
    dense_rows: Any,
) -> None:
    data = random_data(40, 90, confidences=True, empty=True)
    objective = Objective(w0=0.4, l2=0.3, l2_scaling=0.5)
    model = small_model(data, dim=dim, enmf=True, objective=objective, scale=1 / np.sqrt(dim), dtype=dtype)
    towards = data if side is Side.USERS else transposed(data)
    fixed = model.table(side.other).double().numpy()
    wanted = dense_rows(towards, objective, fixed, model.h.double().numpy())
    rows = np.arange(len(model.table(side)))
    problems = model.row_problems(side, data)
    whole = problems.block(rows).minimum()
    assert np.linalg.norm(whole.double().numpy() - wanted) <= tolerance * np.linalg.norm(wanted)
    blocks = [problems.block(part).minimum() for part in np.array_split(rows, 7)]
    assert torch.equal(torch.cat(blocks), whole)


def test_a_row_that_single_precision_cannot_factorise_is_solved_in_double(build: Any) -> None:
    """All items alike and a penalty below the rounding of the matrix, which then looks singular."""
    data = build(np.ones((2, 3), dtype=bool))
    items = torch.tensor([[3.0, 3.0], [3.0, 3.0], [3.0, 3.0]]) * 1000
    model = MF(torch.zeros(2, 2), items, Objective(w0=1.0, l2=1e-3, l2_scaling=0.0))
    found = model.row_problems(Side.USERS, data).block(np.arange(2)).minimum()
    assert found.dtype == torch.float32
    # Both coordinates are the same s, the minimum of 3 (1 − 6000 s)² + 2 l2 s².
    s = 3 * 3000 / (3 * 3000 * 6000 + 1e-3)
    np.testing.assert_allclose(found.numpy(), s, rtol=1e-4)


def test_a_row_without_a_single_answer_is_an_error_not_a_number(build: Any) -> None:
    data = build(np.ones((2, 3), dtype=bool))
    model = MF(torch.zeros(2, 2), torch.full((3, 2), torch.nan), Objective(w0=0.3, l2=0.01))
    with pytest.raises(ModelError, match="l2"):
        model.row_problems(Side.USERS, data).block(np.arange(2)).minimum()
