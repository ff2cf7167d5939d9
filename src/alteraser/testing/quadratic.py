"""What a quadratic model promises to joint Newton and to a live model."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import torch

from alteraser.data.interactions import Interactions, Side
from alteraser.models.base import Quadratic
from alteraser.testing.base import (
    dense,
    noise,
    promise,
    promise_close,
    same_bytes,
    small_data,
)
from alteraser.testing.factored import FactoredContract


class QuadraticContract(FactoredContract):
    """The promises of `Quadratic`: a model of at least two dimensions."""

    @abstractmethod
    def make(self, data: Interactions) -> Quadratic: ...

    def test_the_loss_is_that_of_h_and_the_weights_of_rows(self) -> None:
        data = small_data(empty=True)
        model = self.double(data)
        promise(isinstance(model, Quadratic), "The model is not `Quadratic`")
        present, weights = dense(data)
        users, items = (model.table(side).numpy() for side in (Side.USERS, Side.ITEMS))
        scores = (users * model.h.numpy()) @ items.T
        promise_close(
            model.scores(np.arange(13)), torch.from_numpy(scores), 1e-10, "Scores are not hᵀ(p ⊙ q)"
        )
        missing_user, user_l2 = model.row_weights(Side.USERS, present.sum(1))
        missing_item, item_l2 = model.row_weights(Side.ITEMS, present.sum(0))
        missing = np.outer(missing_user, missing_item)
        wanted = np.where(present, weights * (1 - scores) ** 2, missing * scores**2).sum()
        wanted += user_l2 @ np.square(users).sum(1) + item_l2 @ np.square(items).sum(1)
        promise(
            abs(model.loss(data) - wanted) <= 1e-10 * wanted, "L is not the weighted squares of `row_weights`"
        )

    def test_residuals_are_half_of_minus_the_gradient(self) -> None:
        data = small_data(empty=True)
        model = self.double(data)
        for side in model.sides:
            problems, own = model.row_problems(side, data), model.table(side)
            gradient = problems.block(np.arange(len(own))).expand(own).gradient
            promise_close(
                problems.residual(own), -gradient / 2, 1e-10, f"`residual` of {side.value} is not −½ gradient"
            )

    def test_cross_is_half_the_gradients_change_as_the_other_side_moves(self) -> None:
        data, step = small_data(empty=True), 1e-5
        model = self.double(data)
        for side in model.sides:
            own, other = model.table(side), model.table(side.other)
            change = noise(other, seed=5)
            ends = [
                model.with_rows(side.other, np.arange(len(other)), other + sign * step * change)
                .row_problems(side, data)
                .residual(own)
                for sign in (1, -1)
            ]
            wanted = (ends[1] - ends[0]) / (2 * step)
            found = model.row_problems(side, data).cross(own, change)
            promise_close(
                found, wanted, 1e-7, f"`cross` of {side.value} is not half the change of the gradient"
            )

    def test_factors_solve_as_dense_matrices_do(self) -> None:
        data = small_data(empty=True)
        model = self.double(data)
        for side in model.sides:
            problems, own = model.row_problems(side, data), model.table(side)
            half = problems.block(np.arange(len(own))).hessian(own) / 2
            vectors = noise(own, seed=6)
            wanted = torch.linalg.solve(half, vectors)
            factors = problems.factorised()
            promise(factors is not None, "`factorised` gives None for rows that have an answer")
            promise_close(
                factors.solve(vectors), wanted, 1e-9, f"Factors of {side.value} do not solve as matrices do"
            )
            again = problems.factorised(factors.space)
            promise_close(
                again.solve(vectors), wanted, 1e-9, "Factors in space that is used again solve otherwise"
            )

    def test_one_hessian_holds_everywhere_and_gives_the_minimum(self) -> None:
        data = small_data(empty=True)
        model = self.double(data)
        for side in model.sides:
            own = model.table(side)
            problem = model.row_problems(side, data).block(np.arange(len(own)))
            promise(problem.quadratic, f"The row problems of {side.value} do not say that they are quadratic")
            there = problem.hessian(own + noise(own, seed=7))
            promise_close(there, problem.hessian(own), 1e-12, "The Hessian differs from place to place")
            wanted = own - torch.linalg.solve(there, problem.expand(own).gradient)
            minimum = problem.minimum()
            if minimum is not None:
                promise_close(
                    minimum, wanted, 1e-9, f"`minimum` of {side.value} is not where the gradient vanishes"
                )

    def test_an_empty_row_is_zero(self) -> None:
        model = self.make(small_data())
        for side in model.sides:
            zero = torch.zeros_like(model.table(side)[0])
            promise(same_bytes(model.empty_row(side), zero), f"`empty_row` of {side.value} is not zero")

    def test_a_dimension_without_anything_may_be_left_out_and_put_back(self) -> None:
        data, users = small_data(), np.arange(13)
        model = self.double(data)
        for side in model.sides:
            table = model.table(side).clone()
            table[:, 0] = 0
            model = model.with_rows(side, np.arange(len(table)), table)
        dimensions = model.active_dimensions()
        promise(0 not in dimensions.tolist(), "`active_dimensions` has one in which there is nothing")
        small = model.restrict(dimensions)
        again = model.with_dimensions(dimensions, small)
        for found, what in ((small, "restrict"), (again, "with_dimensions")):
            promise_close(found.scores(users), model.scores(users), 1e-10, f"`{what}` changes scores")
            promise(
                abs(found.loss(data) - model.loss(data)) <= 1e-10 * model.loss(data),
                f"`{what}` changes the loss",
            )
        promise(
            model.table(Side.USERS).shape == again.table(Side.USERS).shape,
            "`with_dimensions` has another size",
        )
