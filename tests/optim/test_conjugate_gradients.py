"""Conjugate gradients against dense linear algebra: damped, preconditioned, cut short, one system and many."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from alteraser.errors import SettingError
from alteraser.optim import conjugate_gradients as module
from alteraser.optim.conjugate_gradients import Stopping, conjugate_gradients

TIGHT = {torch.float64: 1e-12, torch.float32: 1e-6}
WANTED = {torch.float64: 1e-9, torch.float32: 2e-4}


def systems(n_systems: int, dim: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Positive definite matrices with conditions around a hundred, and right sides."""
    rng = np.random.default_rng(n_systems + dim)
    roots = rng.normal(size=(n_systems, dim, dim)) / math.sqrt(dim)
    matrices = roots @ roots.transpose(0, 2, 1) + 0.05 * np.eye(dim)
    return torch.from_numpy(matrices).to(dtype), torch.from_numpy(rng.normal(size=(n_systems, dim))).to(dtype)


def products(matrices: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda search, _: torch.einsum("bij,bj->bi", matrices, search)


def inverse_diagonals(n_systems: int, dim: int, dtype: torch.dtype) -> Tensor:
    rng = np.random.default_rng(7)
    return torch.from_numpy(rng.uniform(0.2, 3.0, (n_systems, dim))).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("damping", [0.0, 0.3, "by system"])
@pytest.mark.parametrize("preconditioned", [False, True], ids=["plain", "preconditioned"])
@pytest.mark.parametrize("n_systems", [1, 6])
def test_it_ends_at_the_dense_solution(
    n_systems: int, preconditioned: bool, damping: Any, dtype: torch.dtype
) -> None:
    matrices, right_side = systems(n_systems, 9, dtype)
    given = right_side.clone()
    inverse = inverse_diagonals(n_systems, 9, dtype)
    if damping == "by system":
        damping = torch.linspace(0.0, 1.0, n_systems, dtype=dtype)
    solved = conjugate_gradients(
        right_side,
        products(matrices),
        stopping=Stopping(relative_residual=TIGHT[dtype]),
        precondition=(lambda vectors: inverse * vectors) if preconditioned else None,
        damping=damping,
    )
    m = torch.diag_embed(1 / inverse) if preconditioned else torch.eye(9, dtype=dtype).expand(n_systems, 9, 9)
    amounts = torch.as_tensor(damping, dtype=dtype).expand(n_systems)
    damped = (matrices + amounts[:, None, None] * m).double().numpy()
    wanted = np.linalg.solve(damped, right_side.double().numpy()[:, :, None])[:, :, 0]
    np.testing.assert_allclose(solved.solution.double().numpy(), wanted, rtol=0, atol=WANTED[dtype] * 20)
    # At the solution xᵀAx − 2xᵀb is −bᵀA⁻¹b.
    decrease = (wanted * right_side.double().numpy()).sum(1)
    np.testing.assert_allclose(solved.decrease, decrease, rtol=WANTED[dtype])
    assert solved.solution.dtype == dtype
    assert torch.equal(right_side, given)


def test_one_system_may_have_any_shape() -> None:
    """All rows of a table together, as one system that does not split by row."""
    matrices, right_side = systems(1, 12)
    rows = right_side.view(1, 4, 3)
    solved = conjugate_gradients(
        rows,
        lambda search, _: (matrices[0] @ search.flatten()).view_as(search),
        stopping=Stopping(relative_residual=1e-12),
    )
    wanted = torch.linalg.solve(matrices[0], right_side[0])
    torch.testing.assert_close(solved.solution, wanted.view(1, 4, 3))


@pytest.mark.parametrize("n_systems", [1, 3])
def test_arrays_do_as_well_as_tensors(n_systems: int) -> None:
    matrices, right_side = systems(n_systems, 7)
    inverse = inverse_diagonals(n_systems, 7, torch.float64)
    rule = Stopping(relative_residual=1e-10)
    as_tensors = conjugate_gradients(
        right_side, products(matrices), stopping=rule, precondition=lambda r: inverse * r, damping=0.2
    )
    as_arrays = conjugate_gradients(
        right_side.numpy(),
        lambda search, _: np.einsum("bij,bj->bi", matrices.numpy(), search),
        stopping=rule,
        precondition=lambda r: inverse.numpy() * r,
        damping=0.2,
    )
    np.testing.assert_allclose(as_arrays.solution, as_tensors.solution.numpy(), rtol=1e-9)
    np.testing.assert_allclose(as_arrays.decrease, as_tensors.decrease, rtol=1e-9)


def test_systems_end_each_at_its_own_time() -> None:
    """One with two distinct eigenvalues is solved by two products, one with none to solve by none; the rest go on."""
    matrices, right_side = systems(3, 8)
    matrices[0] = torch.diag(torch.tensor([1.0, 5.0] * 4, dtype=torch.float64))
    right_side[1] = 0
    n_products: dict[int, Tensor] = {}
    rule = Stopping(relative_residual=1e-12)
    for limit in (2, 200):
        solved = conjugate_gradients(
            right_side,
            products(matrices),
            stopping=Stopping(relative_residual=1e-12, max_products=limit),
        )
        n_products[limit] = solved.solution
    wanted = torch.linalg.solve(matrices, right_side)
    torch.testing.assert_close(n_products[2][0], wanted[0])
    assert torch.equal(n_products[2][0], n_products[200][0])  # it had ended, and stayed as it was
    assert (n_products[200][1] == 0).all()
    torch.testing.assert_close(n_products[200], wanted, rtol=1e-8, atol=1e-10)
    for place in range(3):
        alone = conjugate_gradients(
            right_side[place, None], products(matrices[place, None]), stopping=rule
        ).solution
        torch.testing.assert_close(alone[0], n_products[200][place], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n_systems", [1, 2])
def test_a_system_that_is_not_a_number_ends_alone(n_systems: int) -> None:
    matrices, right_side = systems(n_systems + 1, 4)
    matrices[0] = torch.nan
    matrices, right_side = matrices[:n_systems], right_side[:n_systems]
    solved = conjugate_gradients(
        right_side, products(matrices), stopping=Stopping(relative_residual=1e-12)
    ).solution
    assert torch.equal(solved[0], right_side[0])
    if n_systems > 1:
        torch.testing.assert_close(solved[1:], torch.linalg.solve(matrices[1:], right_side[1:]))


@pytest.mark.parametrize("n_systems", [1, 3])
def test_negative_curvature_at_once_gives_the_preconditioned_residual(n_systems: int) -> None:
    matrices, right_side = systems(n_systems, 5)
    matrices[0] = -torch.eye(5)
    inverse = inverse_diagonals(n_systems, 5, torch.float64)
    solved = conjugate_gradients(
        right_side,
        products(matrices),
        stopping=Stopping(relative_residual=1e-12),
        precondition=lambda vectors: inverse * vectors,
    )
    torch.testing.assert_close(solved.solution[0], inverse[0] * right_side[0])
    assert float(solved.decrease[0]) == pytest.approx(
        float((inverse[0] * right_side[0].square()).sum())
    )  # if A were M
    torch.testing.assert_close(solved.solution[1:], torch.linalg.solve(matrices[1:], right_side[1:]))


@pytest.mark.parametrize("n_systems", [1, 2])
@pytest.mark.parametrize(("damping", "n_steps"), [(0.0, 1), (0.9, 1), (1.1, 2)])
def test_curvature_that_hardly_shows_keeps_what_was_found(
    n_systems: int, damping: float, n_steps: int
) -> None:
    """Along the second direction the curvature is near −0.5; with a damping above 1 the half of it is enough."""
    matrix = torch.diag(torch.tensor([1.0, -0.5], dtype=torch.float64))
    right_side = torch.tensor([[30.0, 0.1]] * n_systems, dtype=torch.float64)
    solved = conjugate_gradients(
        right_side,
        products(matrix.expand(n_systems, 2, 2)),
        stopping=Stopping(relative_residual=1e-9),
        damping=damping,
    )
    damped = matrix + damping * torch.eye(2)
    if n_steps == 2:
        wanted = torch.linalg.solve(damped, right_side[0])
    else:
        b = right_side[0]
        wanted = b * (b @ b) / (b @ damped @ b)
    for row in solved.solution:
        torch.testing.assert_close(row, wanted)


@pytest.mark.parametrize("n_systems", [1, 2])
def test_it_ends_when_a_product_promises_little(n_systems: int) -> None:
    """By the decrease of xᵀAx − 2xᵀb from product to product, computed from the solutions of ever more products."""
    matrices, right_side = systems(n_systems, 20)
    matrices, right_side = matrices[:1].repeat(n_systems, 1, 1), right_side[:1].repeat(n_systems, 1)

    def found(**rule: Any) -> tuple[int, float, list[float]]:
        solved = conjugate_gradients(right_side, products(matrices), stopping=Stopping(**rule))
        x = solved.solution[0]
        return solved.n_products, float(2 * x @ right_side[0] - x @ matrices[0] @ x), solved.decrease.tolist()

    curve = [0.0]
    for limit in range(1, 16):
        n_products, decrease, promised = found(max_products=limit)
        assert n_products == limit
        assert promised == pytest.approx([decrease] * n_systems, rel=1e-9)
        curve.append(decrease)
    gains = np.diff(curve)
    for forcing in (0.3, 0.05, 0.01):
        little = gains < forcing * np.array(curve[1:])
        assert found(forcing=forcing)[0] == 1 + int(np.argmax(little))
        enough = float(gains[8])
        less = little & (gains < enough)
        assert found(forcing=forcing, enough=enough)[0] == 1 + int(np.argmax(less))


def test_the_product_gets_m_times_the_direction() -> None:
    matrices, right_side = systems(3, 6)
    inverse = inverse_diagonals(3, 6, torch.float64)
    seen: list[float] = []

    def product(search: Tensor, m_search: Tensor) -> Tensor:
        seen.append(float((m_search - search / inverse).abs().max()))
        return torch.einsum("bij,bj->bi", matrices, search)

    rule = Stopping(relative_residual=1e-6)
    conjugate_gradients(right_side, product, stopping=rule, precondition=lambda vectors: inverse * vectors)
    assert len(seen) > 3
    assert max(seen) < 1e-9


def test_long_sums_keep_the_precision_of_short_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system of many chunks of a dot product has the answer of one whose products fit a single chunk."""
    rng = np.random.default_rng(0)
    scale = torch.from_numpy(rng.uniform(1, 3, (1, 1000)))
    right_side = torch.from_numpy(rng.normal(size=(1, 1000)))
    rule = Stopping(relative_residual=1e-10)
    whole = conjugate_gradients(right_side, lambda search, _: scale * search, stopping=rule)
    monkeypatch.setattr(module, "DOT_BYTES", 512)
    cut = conjugate_gradients(right_side, lambda search, _: scale * search, stopping=rule)
    torch.testing.assert_close(cut.solution, right_side / scale)
    torch.testing.assert_close(cut.solution, whole.solution)


def test_a_product_may_hand_back_what_it_got() -> None:
    """As automatic differentiation does where the matrix is the identity."""
    right_side = torch.arange(6, dtype=torch.float64).view(2, 3)
    for part in (right_side, right_side[1:]):
        solved = conjugate_gradients(
            part,
            lambda search, _: search,
            stopping=Stopping(relative_residual=1e-9),
            precondition=lambda r: r,
        )
        torch.testing.assert_close(solved.solution, part)


@pytest.mark.parametrize(
    "setting", [{"relative_residual": -1.0}, {"forcing": 1.5}, {"enough": -2.0}, {"max_products": 0}]
)
def test_settings_out_of_range_are_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=str(next(iter(setting.values())))):
        Stopping(**setting)
