"""Executors: whatever runs the blocks, results are the same to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numba
import numpy as np
import pytest
import torch
from torch import Tensor

from alteraser import ALS, Anderson, Executor, Local, SettingError, ah_newton, cg_newton, fit, hf_newton
from alteraser.data.interactions import Interactions, Side
from alteraser.models.blocks import blocks_of, sum_here
from alteraser.models.objective import Objective
from alteraser.models.ridge import weighted_gram
from alteraser.sweep.executors import SumBy
from alteraser.sweep.joint import JointNewton
from alteraser.sweep.sweep import Rows, Sweeper, repeat
from tests.conftest import _random_data, _small_model
from tests.sweep.pool import Pool

OBJECTIVE = Objective(w0=0.3, l2=0.1, l2_scaling=0.5, item_popularity=0.4, mean_item_count=4.0)
SOLVERS: dict[str, Any] = {"ah": ah_newton, "cg": cg_newton, "hf": hf_newton}
CASES = [("ah", torch.float32), ("ah", torch.float64), ("cg", torch.float32), ("hf", torch.float64)]
THREADS: int = vars(numba.config)["NUMBA_NUM_THREADS"]


@pytest.fixture(scope="module")
def pool(run_by_one: object) -> Iterator[Pool]:
    """Two processes that find the kernels in the cache, as the one that ran every case has put them there."""
    del run_by_one
    with Pool() as started:
        yield started


def make_blocks_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny data in several blocks."""
    monkeypatch.setattr("alteraser.models.blocks.blocks_of.__defaults__", (7,))
    monkeypatch.setattr("alteraser.models.enmf.BLOCK_ENTRIES", 50)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    make_blocks_small(monkeypatch)


@pytest.fixture(params=["local", "pool"])
def executor(request: pytest.FixtureRequest, pool: Pool) -> Executor:
    return Local() if request.param == "local" else pool


@pytest.fixture(scope="module")
def data(random_data: Any) -> Interactions:
    made: Interactions = random_data(30, 20, confidences=True, density=0.2, empty=True)
    return made


def tables(model: Any) -> list[Tensor]:
    return list(model.parameters().values())


def same(one: Any, other: Any) -> bool:
    return all(torch.equal(a, b) for a, b in zip(tables(one), tables(other), strict=True))


def scaled(factor: float, block: int, values: Tensor) -> Tensor:
    return factor * values[block]


def test_answers_come_in_the_order_of_the_blocks(executor: Executor) -> None:
    values = torch.arange(20.0)
    placed = executor.place(values)
    answers = executor.map(partial(scaled, 2.0), iter([5, 3, 11, 3]), placed)
    assert [float(each) for each in answers] == [10, 6, 22, 6]
    total = SumBy(executor)(partial(scaled, 2.0), [5, 3, 11], values)
    assert float(total) == 38


def test_an_error_in_a_block_reaches_the_caller(executor: Executor) -> None:
    with pytest.raises(IndexError):
        list(executor.map(partial(scaled, 1.0), [99], executor.place(torch.ones(3))))


def small_case(solver: str, dtype: torch.dtype) -> tuple[Any, Interactions, Sweeper]:
    data = _random_data(30, 20, confidences=True, density=0.2, empty=True)
    model = _small_model(data, dim=5, objective=OBJECTIVE, enmf=True, dtype=dtype)
    return model, data, Sweeper(SOLVERS[solver], block_rows=8, solve_shared=True)


def run_small_case(executor: Executor, solver: str, dtype: torch.dtype) -> list[Any]:
    """A loss, a norm of the gradient, the tables after a pass, and how ALS goes on from there."""
    model, data, sweeper = small_case(solver, dtype)
    sweeper = replace(sweeper, executor=executor)
    swept = sweeper.sweep(model, data, Rows.occupied(data))
    trainer = ALS(max_passes=3, tolerance=0.0, solver=SOLVERS[solver], executor=executor)
    losses = fit(swept, data, trainer=trainer).losses
    return [sweeper.loss(model, data), sweeper.gradient_norm(model, data), losses, *tables(swept)]


def run_here(block: tuple[str, torch.dtype]) -> list[Any]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        make_blocks_small(monkeypatch)
        return run_small_case(Local(), *block)


@pytest.fixture(scope="module")
def run_by_one() -> dict[Any, list[Any]]:
    """Every case by `Local` in one new process.

    Not in this one: numba's machine code is not the same to the last bit when it was compiled in a process as when it
    was read from the cache on disk, which a first process therefore fills.
    """
    for _ in range(2):
        with Pool(1) as process:
            found = dict(zip(CASES, process.map(run_here, CASES), strict=True))
    return found


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_passes_losses_and_gradients_are_the_same_elsewhere(
    case: tuple[str, torch.dtype], run_by_one: dict[Any, list[Any]], pool: Pool
) -> None:
    before = pool.n_blocks
    found = run_small_case(pool, *case)
    assert pool.n_blocks > before + 100  # it was asked, block by block
    assert found[:3] == run_by_one[case][:3]
    for table, wanted in zip(found[3:], run_by_one[case][3:], strict=True):
        assert torch.equal(table, wanted)


@pytest.mark.usefixtures("small_blocks")
def test_gram_matrices_are_the_same_elsewhere_and_those_of_the_whole_table(pool: Pool) -> None:
    rng = np.random.default_rng(0)
    table, weights = torch.from_numpy(rng.normal(size=(40, 6))), torch.from_numpy(rng.random(40))
    here = weighted_gram(table, weights, torch.float64)
    assert torch.equal(weighted_gram(table, weights, torch.float64, SumBy(pool)), here)
    np.testing.assert_allclose(here.numpy(), (table * weights[:, None]).T.numpy() @ table.numpy(), rtol=1e-12)


@pytest.mark.usefixtures("small_blocks")
def test_training_elsewhere_sends_the_interactions_once(
    random_data: Any, small_model: Any, pool: Pool
) -> None:
    data = random_data(30, 20, seed=3)
    model = small_model(data, objective=OBJECTIVE)
    before = dict(pool.n_placed)
    ways = [ALS(max_passes=4, tolerance=0.0, executor=each) for each in (Local(), pool)]
    here, there = (fit(model, data, trainer=way) for way in ways)
    assert there.losses == pytest.approx(here.losses, rel=1e-13)
    assert pool.n_placed["CSR"] - before.get("CSR", 0) == 2  # by user and by item
    assert pool.n_placed["RidgeTerms"] - before.get("RidgeTerms", 0) == 8


def test_joint_newton_refuses_to_run_elsewhere(data: Interactions, small_model: Any, pool: Pool) -> None:
    model, sweeper = small_model(data, objective=OBJECTIVE), Sweeper(ah_newton, executor=pool)
    with pytest.raises(SettingError, match=r"Pool.*Anderson"):
        repeat(sweeper, model, data, max_passes=2, tolerance=0.0, acceleration=JointNewton())
    passes = repeat(sweeper, model, data, max_passes=2, tolerance=0.0, acceleration=Anderson())
    assert passes.n_passes == 2


@pytest.mark.skipif(THREADS < 2, reason="needs two threads")
@pytest.mark.usefixtures("small_blocks", "all_threads")
@pytest.mark.parametrize("enmf", [False, True], ids=["mf", "enmf"])
@pytest.mark.parametrize("solver", [ah_newton, cg_newton, hf_newton], ids=["ah", "cg", "hf"])
def test_the_number_of_threads_changes_no_bit(
    solver: Any, enmf: bool, data: Interactions, small_model: Any
) -> None:
    model = small_model(data, dim=20, objective=OBJECTIVE, enmf=enmf, dtype=torch.float32)
    found = []
    for n_threads in (1, 2):
        numba.set_num_threads(n_threads)
        sweeper = Sweeper(solver, block_rows=16, solve_shared=True)
        swept = sweeper.sweep(model, data, Rows.occupied(data))
        found.append((swept, sweeper.loss(swept, data), sweeper.gradient_norm(swept, data)))
    assert same(found[0][0], found[1][0])
    assert found[0][1:] == found[1][1:]


@pytest.mark.parametrize(
    ("n", "wanted"), [(0, [(0, 0)]), (3, [(0, 3)]), (4, [(0, 4)]), (9, [(0, 4), (4, 8), (8, 9)])]
)
def test_blocks_hold_every_row_once(n: int, wanted: list[tuple[int, int]]) -> None:
    assert [(block.start, block.stop) for block in blocks_of(n, 4)] == wanted


@pytest.mark.parametrize("side", list(Side), ids=lambda side: side.value)
def test_residuals_of_some_rows_are_those_of_the_whole(
    side: Side, data: Interactions, small_model: Any
) -> None:
    model = small_model(data, dim=5, objective=OBJECTIVE)
    problems, own = model.row_problems(side, data), model.table(side)
    parts = [problems.residual(own, block) for block in blocks_of(len(own), 7)]
    torch.testing.assert_close(torch.cat(parts), problems.residual(own), rtol=1e-12, atol=1e-14)


def test_a_sum_of_floats_is_made_in_order() -> None:
    terms = [1e16, 1.0, -1e16]
    assert sum_here(lambda place: terms[place], [0, 1, 2]) == 0.0
    assert sum_here(lambda place: terms[place], [0, 2, 1]) == 1.0
