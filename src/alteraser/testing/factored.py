"""What a model promises to whoever solves its rows."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alteraser.data.interactions import Interactions, Side
from alteraser.errors import MismatchError
from alteraser.models.base import Factored
from alteraser.optim.newton import hf_newton
from alteraser.sweep.sweep import Rows, Sweeper
from alteraser.testing.base import (
    noise,
    promise,
    promise_close,
    promise_refused,
    same_bytes,
    slopes,
    small_data,
)
from alteraser.testing.recommender import RecommenderContract

BY_DIFFERENCES = 1e-6  # how near a gradient by central differences comes, relative to it


class FactoredContract(RecommenderContract):
    """The promises of `Factored`."""

    @abstractmethod
    def make(self, data: Interactions) -> Factored: ...

    def double(self, data: Interactions) -> Any:
        """The model in double precision: gradients are compared with differences of the loss."""
        model = self.make(data)
        return model.with_parameters({name: value.double() for name, value in model.parameters().items()})

    def use(self, model: Any, data: Interactions) -> None:
        super().use(model, data)
        model.loss(data)
        model.gradient_norm(data)
        model.solve_shared(data)
        for side in model.sides:
            model.row_problems(side, data).block(np.arange(3)).value(model.table(side)[:3])

    def test_has_the_abilities_of_a_factored_model(self) -> None:
        promise(isinstance(self.make(small_data()), Factored), "The model is not `Factored`")

    def test_every_side_has_a_table_that_is_a_parameter(self) -> None:
        data = small_data()
        model = self.make(data)
        promise(
            set(model.sides) == set(Side), f"`sides` are {model.sides}; users and items are wanted, once each"
        )
        for side in model.sides:
            table = model.table(side)
            promise(
                len(table) == len(data.vocabulary(side)), f"The table of {side.value} has {len(table)} rows"
            )
            promise(same_bytes(table, model.parameters()[side.value]), f"`parameters` has no {side.value!r}")

    def test_with_rows_changes_these_rows_and_nothing_else(self) -> None:
        model, rows = self.make(small_data()), np.array([5, 0, 7])
        before = {name: value.clone() for name, value in model.parameters().items()}
        for side in model.sides:
            vectors = model.table(side)[:3] + 1
            after = model.with_rows(side, rows, vectors).parameters()
            promise(
                type(model.with_rows(side, rows, vectors)) is type(model), "`with_rows` gives another class"
            )
            promise(
                same_bytes(after[side.value][rows], vectors),
                "`with_rows` does not put the vectors in their rows",
            )
            others = np.setdiff1d(np.arange(len(model.table(side))), rows)
            promise(
                same_bytes(after[side.value][others], before[side.value][others]),
                "`with_rows` moves other rows",
            )
            for name in before.keys() - {side.value}:
                promise(same_bytes(after[name], before[name]), f"`with_rows` of {side.value} changes {name}")
        for name, value in model.parameters().items():
            promise(
                same_bytes(value, before[name]), f"`with_rows` changes {name} of the model it was asked of"
            )

    def test_with_parameters_gives_back_the_model(self) -> None:
        data = small_data()
        model = self.make(data)
        again = model.with_parameters(model.parameters())
        promise(
            again.loss(data) == model.loss(data),
            "`with_parameters` of a model's own `parameters` is another model",
        )

    def test_the_loss_is_the_same_whenever_and_in_whatever_order(self) -> None:
        data = small_data()
        model = self.make(data)
        loss = model.loss(data)
        promise(
            isinstance(loss, float) and np.isfinite(loss), f"`loss` is {loss!r}; a finite float is wanted"
        )
        promise(model.loss(data) == loss, "`loss` differs from call to call")
        shuffled = Interactions(
            data.events.sample(fraction=1, shuffle=True, seed=1), data.user_vocabulary, data.item_vocabulary
        )
        promise(
            abs(model.loss(shuffled) - loss) <= 1e-9 * abs(loss), "`loss` depends on the order of the events"
        )

    def test_row_problems_have_the_gradient_of_the_loss(self) -> None:
        data, squares = small_data(empty=True), 0.0
        model = self.double(data)
        for side in model.sides:
            table = model.table(side)
            wanted = slopes(partial(loss_with, model, data, side.value), table)
            found = model.row_problems(side, data).block(np.arange(len(table))).expand(table).gradient
            what = f"The gradient of the row problems of {side.value} is not L's"
            promise_close(found, wanted, BY_DIFFERENCES, what)
            squares += float(wanted.square().sum())
        error = abs(model.gradient_norm(data) - squares**0.5)
        promise(
            error <= BY_DIFFERENCES * squares**0.5, "`gradient_norm` is not the norm of the gradient of L"
        )

    def test_a_row_changes_the_loss_as_it_changes_its_own_problem(self) -> None:
        data = small_data(empty=True)
        model = self.double(data)
        for side in model.sides:
            table, start = model.table(side), model.loss(data)
            values = model.row_problems(side, data).block(np.arange(len(table))).value
            moved = table + noise(table, seed=2)
            wanted = [
                model.with_rows(side, np.array([r]), moved[r : r + 1]).loss(data) - start
                for r in range(len(table))
            ]
            found = values(moved) - values(table)
            promise_close(
                found,
                torch.tensor(wanted, dtype=torch.float64),
                1e-8,
                f"A row of {side.value} moves L and its problem apart",
            )

    def test_rows_of_a_side_do_not_know_of_each_other(self) -> None:
        data, rows = small_data(empty=True), np.array([2, 6, 4])
        model = self.double(data)
        for side in model.sides:
            x = model.table(side)[rows]
            here = model.row_problems(side, data).block(rows).expand(x)
            shifted = x + torch.tensor([[0.0], [1.0], [0.0]]).double()
            moved = model.with_rows(side, rows[1:2], shifted[1:2])
            for problem, what in (
                (model.row_problems(side, data).block(rows), "in the block"),
                (moved.row_problems(side, data).block(rows), "in the model"),
            ):
                there = problem.expand(shifted)
                for before, after in ((here.value, there.value), (here.gradient, there.gradient)):
                    promise_close(
                        after[::2], before[::2], 1e-12, f"A row of {side.value} moved {what} changes others"
                    )
            alone = torch.cat(
                [model.row_problems(side, data).block(rows[i : i + 1]).value(x[i : i + 1]) for i in range(3)]
            )
            promise_close(
                alone, here.value, 1e-12, f"A row of {side.value} has another value alone than in a block"
            )

    def test_products_and_hessians_are_those_of_the_gradient(self) -> None:
        data, rows, step = small_data(), np.array([3, 0, 8]), 1e-5
        model = self.double(data)
        for side in model.sides:
            problem, x = model.row_problems(side, data).block(rows), model.table(side)[rows]
            along = noise(x, seed=3)
            ends = [problem.expand(x + sign * step * along).gradient for sign in (1, -1)]
            wanted = (ends[0] - ends[1]) / (2 * step)
            promise_close(
                problem.expand(x).product(along),
                wanted,
                1e-5,
                "A Hessian product is not the gradient's change",
            )
            by_matrix = torch.einsum("bij,bj->bi", problem.hessian(x), along)
            promise_close(by_matrix, wanted, 1e-5, "`hessian` is not the gradient's change")

    def test_an_empty_row_is_at_the_minimum_of_its_problem(self) -> None:
        data = small_data(empty=True)
        model = self.double(data)
        for side in model.sides:
            empty, last = model.empty_row(side), len(model.table(side)) - 1
            promise(empty.shape == model.table(side).shape[1:], f"`empty_row` has shape {tuple(empty.shape)}")
            problem = model.row_problems(side, data).block(np.array([last]))
            here = problem.expand(empty[None])
            away = noise(empty[None], seed=4)
            slope = float(here.gradient.norm())
            promise(
                slope <= 1e-8 * max(1.0, float(problem.expand(empty[None] + away).gradient.norm())),
                f"The problem of an empty row of {side.value} has a slope of {slope:.1e} at `empty_row`",
            )
            for size in (0.1, 1.0):
                higher = problem.value(empty[None] + size * away) >= here.value
                promise(
                    higher.all(), f"The problem of an empty row of {side.value} is lower beside `empty_row`"
                )

    def test_rows_without_interactions_become_empty_rows_and_no_others(self) -> None:
        data = small_data(empty=True)
        model = self.make(data)
        kept = model.without_empty_rows(data)
        swept = Sweeper(hf_newton).sweep(
            model, data, Rows({side: np.arange(len(model.table(side))) for side in Side})
        )
        for side in model.sides:
            promise(
                same_bytes(kept.table(side)[:-1], model.table(side)[:-1]),
                "`without_empty_rows` moves other rows",
            )
            for last in (kept.table(side)[-1], swept.table(side)[-1]):
                promise(
                    same_bytes(last, model.empty_row(side)),
                    f"An empty row of {side.value} is not `empty_row`",
                )

    def test_a_pass_never_raises_the_loss(self) -> None:
        data = small_data()
        model = self.make(data)
        swept = Sweeper(hf_newton).sweep(model, data, Rows.occupied(data))
        promise(swept.loss(data) < model.loss(data), "A pass over all rows does not lower the loss")

    def test_solving_what_is_shared_never_raises_the_loss(self) -> None:
        data = small_data()
        model = self.make(data)
        before = {name: value.clone() for name, value in model.parameters().items()}
        promise(model.solve_shared(data).loss(data) <= model.loss(data), "`solve_shared` raises the loss")
        for name, value in model.parameters().items():
            promise(
                same_bytes(value, before[name]), f"`solve_shared` changes {name} of the model it was asked of"
            )

    def test_a_fresh_model_is_that_of_its_generator(self) -> None:
        model = self.make(small_data())
        first, again, other = (model.fresh(np.random.default_rng(seed)) for seed in (1, 1, 2))
        for side in model.sides:
            table = first.table(side)
            promise(table.shape == model.table(side).shape, "`fresh` has another size")
            promise(same_bytes(table, again.table(side)), "`fresh` differs with the same generator")
            promise(
                not (table == other.table(side)).all(1).any(),
                "`fresh` has the same row with another generator",
            )
            promise(
                not (table == model.table(side)).all(1).any(),
                "`fresh` keeps a row of the model it was asked of",
            )

    def test_the_loss_and_rows_of_data_of_another_size_are_refused(self) -> None:
        model, other = self.make(small_data()), small_data(13, 12)
        promise_refused(MismatchError, "`loss` of data of another size", model.loss, other)
        for side in model.sides:
            what = "`row_problems` of data of another size"
            promise_refused(MismatchError, what, model.row_problems, side, other)


def loss_with(model: Factored, data: Interactions, name: str, value: Tensor) -> float:
    """The loss of a model with another tensor in the place of one of its parameters."""
    return model.with_parameters({**model.parameters(), name: value}).loss(data)
