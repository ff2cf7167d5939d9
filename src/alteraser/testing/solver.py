"""What a solver of row problems promises."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import is_dataclass, replace
from typing import Any

import numpy as np
import scipy.optimize
import torch
from numpy.typing import NDArray
from torch import Tensor

from alteraser.data.interactions import Side
from alteraser.models.enmf import ENMF
from alteraser.models.objective import Objective
from alteraser.optim.minimize import Solution, Solver, Status, minimize
from alteraser.optim.newton import ah_newton
from alteraser.optim.problem import RowProblem
from alteraser.testing.base import Contract, dense, promise, promise_close, same_bytes, small_data


class Ridges(RowProblem):
    """‖X_b y − t_b‖² + l2 ‖y‖² of each row: autograd only, no closed form offered."""

    def __init__(self, n_rows: int = 5, dim: int = 4, l2: float = 0.5) -> None:
        rng = np.random.default_rng(0)
        self.matrix = torch.from_numpy(rng.normal(size=(n_rows, 30, dim)))
        self.target = torch.from_numpy(rng.normal(size=(n_rows, 30)))
        self.l2 = l2

    def value(self, x: Tensor) -> Tensor:
        return self.residuals(x).square().sum(1)

    def residuals(self, x: Tensor) -> Tensor:
        misses = torch.einsum("bnd,bd->bn", self.matrix, x) - self.target
        return torch.cat([misses, self.l2**0.5 * x], dim=1)

    def answer(self) -> Tensor:
        """The minimum, from the dense normal equations."""
        rows = [
            np.linalg.solve(x.T @ x + self.l2 * np.eye(x.shape[1]), x.T @ t)
            for x, t in zip(self.matrix.numpy(), self.target.numpy(), strict=True)
        ]
        return torch.from_numpy(np.stack(rows))


class Logistic(RowProblem):
    """Σ log(1 + exp(−t·Xy)) + l2 ‖y‖²: convex, but no quadratic and no sum of squares; bounded curvature."""

    def __init__(self) -> None:
        ridges = Ridges()
        self.matrix, self.target, self.l2 = ridges.matrix, ridges.target.sign(), ridges.l2

    def value(self, x: Tensor) -> Tensor:
        margin = torch.einsum("bnd,bd->bn", self.matrix, x) * self.target
        return torch.nn.functional.softplus(-margin).sum(1) + self.l2 * x.square().sum(1)

    def answer(self) -> Tensor:
        """The minimum, row by row as scipy finds it without gradients of ours."""
        return torch.from_numpy(np.stack([self._of_row(row) for row in range(len(self.target))]))

    def _of_row(self, row: int) -> NDArray[np.float64]:
        x, sign = self.matrix[row].numpy(), self.target[row].numpy()

        def value(y: Any) -> float:
            return float(np.logaddexp(0, -sign * (x @ y)).sum() + self.l2 * y @ y)

        found = scipy.optimize.minimize(value, np.zeros(x.shape[1]), method="BFGS", options={"gtol": 1e-8})
        minimum: NDArray[np.float64] = found.x
        return minimum


class Wells(RowProblem):
    """Σ (y² − 1)²/4 of each row, with 2 minima per axis; at 0 every curvature is negative and 1/√3 has none."""

    def value(self, x: Tensor) -> Tensor:
        return ((x.square() - 1).square() / 4).sum(1)


class SolverContract(Contract):
    """The promises of `Solver`; `make()` returns one.

    `nearness` is how near it comes to the answer of a ridge regression, relative to its norm; `nearness_elsewhere` how
    near to the minimum of a function that is no sum of squares, in each number (None: it solves sums of squares alone).
    Without `converges` it may end after a fixed number of steps; without `descends` it may follow negative curvature
    upwards, as Newton's method does on its own.
    """

    nearness: float = 1e-4
    nearness_elsewhere: float | None = 2e-5
    converges: bool = True
    descends: bool = True

    @abstractmethod
    def make(self) -> Solver: ...

    def make_short(self) -> Solver | None:
        """The solver with too few steps to arrive; None if it cannot have that."""
        if not is_dataclass(self.make()):
            return None
        solver: Any = self.make()
        short: Solver = replace(solver, max_steps=1)
        return short

    def test_reaches_the_ridge_answer(self) -> None:
        problem = Ridges()
        answer = problem.answer()
        for start in (0.0, 1.0, -1.0):
            solver = self.make()
            solution = minimize(problem, torch.full_like(answer, start), solver=solver)
            promise_close(
                solution.value, answer, self.nearness, f"From {start:g}, the answer of a ridge regression"
            )
            promise(
                1 <= solution.steps <= solver.max_steps, f"{solution.steps} steps, at most {solver.max_steps}"
            )
            self._promise_converged(solution)

    def test_reaches_the_dense_answer_of_a_model_row(self) -> None:
        for side in Side:
            problem, start, answer = _model_rows(side)
            found = minimize(problem, start, solver=self.make()).value
            promise_close(found, answer, self.nearness, f"The answer of a model's rows of {side.value}")

    def test_what_is_exact_is_exact(self) -> None:
        """Joint Newton puts factors in the place of a solver that says so."""
        if self.make().exact_on_quadratics:
            problem, start, answer = _model_rows(Side.ITEMS)
            found = minimize(problem, start, solver=self.make()).value
            promise_close(found, answer, 1e-10, "`exact_on_quadratics` is claimed; the answer")

    def test_stays_at_the_answer(self) -> None:
        problem = Ridges()
        solution = minimize(problem, problem.answer(), solver=self.make())
        promise(solution.status is Status.CONVERGED, f"At the answer, it ended as {solution.status}")
        promise_close(solution.value, problem.answer(), 1e-7, "Begun at the answer, the answer")

    def test_converged_is_said_only_at_the_minimum(self) -> None:
        problem, answer = Ridges(), Ridges().answer()
        for start in (0.0, 3.0):
            solution = minimize(problem, torch.full_like(answer, start), solver=self.make())
            if solution.status is Status.CONVERGED:
                promise_close(solution.value, answer, self.nearness, "Said to have converged, the answer")

    def test_no_row_rises_though_its_neighbours_have_far_to_go(self) -> None:
        """A block holds rows at their minimum and rows far from it; none may pay for the others."""
        for dtype in (torch.float64, torch.float32):
            problem, start, _ = _model_rows(Side.USERS, dtype)
            start = minimize(problem, start, solver=ah_newton).value
            start[::2] += 1.0
            before = problem.value(start)
            solution = minimize(problem, start, solver=self.make()).value
            promise(solution.dtype == dtype, f"Rows of {dtype} are solved as {solution.dtype}")
            rise = problem.value(solution) - before
            promise(
                (rise <= 16 * torch.finfo(dtype).eps * before.abs()).all(), "A row ends above where it began"
            )

    def test_rows_of_a_block_do_not_know_of_each_other(self) -> None:
        problem, start, answer = _model_rows(Side.USERS)
        together = minimize(problem, start, solver=self.make()).value
        for place in range(len(start)):
            alone = minimize(problem.alone(place, start), start[place : place + 1], solver=self.make()).value
            error = float((alone[0] - together[place]).norm())
            promise(
                error <= 2 * self.nearness * float(answer.norm()),
                "A row has another answer alone than in a block",
            )

    def test_reaches_the_minimum_of_a_function_that_is_not_quadratic(self) -> None:
        if self.nearness_elsewhere is None:
            return
        problem = Logistic()
        solution = minimize(problem, torch.zeros(5, 4, dtype=torch.float64), solver=self.make())
        error = float((solution.value - problem.answer()).abs().max())
        promise(
            error <= self.nearness_elsewhere, f"The minimum of a logistic regression is missed by {error:.1e}"
        )
        promise(solution.steps > 1, "The minimum of a logistic regression is said to be reached in one step")
        self._promise_converged(solution)

    def test_no_row_ends_above_its_start_where_curvature_is_negative(self) -> None:
        if not self.descends:
            return
        problem = Wells()
        for seed in range(3):
            start = torch.from_numpy(np.random.default_rng(seed).uniform(-0.5, 0.5, (6, 3)))
            rise = problem.value(minimize(problem, start, solver=self.make()).value) - problem.value(start)
            promise((rise <= 1e-14).all(), "Where curvature is negative, a row ends above its start")

    def test_says_when_it_ran_out_of_steps(self) -> None:
        solver = self.make_short()
        if solver is None or self.nearness_elsewhere is None:
            return
        start = torch.full((5, 4), 2.0, dtype=torch.float64)
        solution = minimize(Logistic(), start, solver=solver)
        promise(solution.status is Status.MAX_STEPS, f"Out of steps, it ended as {solution.status}")
        promise(solution.steps == solver.max_steps, f"It made {solution.steps} steps of {solver.max_steps}")

    def test_the_start_is_left_as_it_was_and_the_answer_carries_no_graph(self) -> None:
        start = torch.ones(5, 4, dtype=torch.float64)
        solution = minimize(Ridges(), start, solver=self.make())
        promise((start == 1).all() and not start.requires_grad, "The start was changed")
        promise(not solution.value.requires_grad, "The answer carries a graph for autograd")

    def test_the_same_call_gives_the_same_answer(self) -> None:
        start = torch.ones(5, 4, dtype=torch.float64)
        first, again = (minimize(Ridges(), start, solver=self.make()).value for _ in range(2))
        promise(same_bytes(first, again), "The answer differs from call to call")

    def _promise_converged(self, solution: Solution) -> None:
        if self.converges:
            promise(solution.status is Status.CONVERGED, f"It ended as {solution.status}, not converged")


def _model_rows(side: Side, dtype: torch.dtype = torch.float64) -> tuple[RowProblem, Tensor, Tensor]:
    """Rows of an ENMF model in no order, where they stand, and their minimum from the dense normal equations."""
    data, rng, rows = small_data(20, 9, seed=3), np.random.default_rng(0), np.array([4, 1, 2, 0, 7, 8])
    tables = [torch.from_numpy(rng.normal(0, 0.5, (n, 3))).to(dtype) for n in (20, 9)]
    eta = torch.from_numpy(rng.uniform(0.5, 2.0, 3)).to(dtype)
    objective = Objective(w0=0.4, l2=0.8, l2_scaling=0.0)
    model = ENMF(tables[0], tables[1], objective, eta)
    present, weights = (each if side is Side.USERS else each.T for each in dense(data))
    scaled = (model.table(side.other) * model.h).double().numpy()
    answers = []
    for row in rows:
        confidence = np.where(present[row], weights[row], objective.w0)
        matrix = (scaled * confidence[:, None]).T @ scaled + objective.l2 * np.eye(3)
        answers.append(np.linalg.solve(matrix, scaled.T @ (confidence * present[row])))
    problem = model.row_problems(side, data).block(rows)
    return problem, model.table(side)[torch.from_numpy(rows)], torch.from_numpy(np.stack(answers))
