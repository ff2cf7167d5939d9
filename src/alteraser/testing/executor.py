"""What an executor of blocks promises."""

from __future__ import annotations

import time
from abc import abstractmethod
from functools import partial

import numpy as np
import torch
from torch import Tensor

from alteraser.models.enmf import ENMF
from alteraser.models.objective import Objective
from alteraser.optim.newton import ah_newton
from alteraser.sweep.executors import Executor, Local
from alteraser.sweep.sweep import Rows, Sweeper
from alteraser.testing.base import Contract, promise, promise_refused, same_bytes, small_data


class ExecutorContract(Contract):
    """The promises of `Executor`; `make()` returns one that is ready, and may be the same each time."""

    @abstractmethod
    def make(self) -> Executor: ...

    def test_answers_come_in_the_order_of_the_blocks(self) -> None:
        """The first block takes longest: who is done first must not be first."""
        executor, ten = self.make(), torch.tensor(10)
        found = list(executor.map(partial(_shifted, 0.02), iter(range(5)), executor.place(ten)))
        promise(found == [10, 11, 12, 13, 14], f"Blocks 0 to 4, each plus 10, came as {found}")
        nothing = list(executor.map(partial(_shifted, 0.0), [], executor.place(ten)))
        promise(nothing == [], "There are answers without blocks")

    def test_placed_values_come_in_the_order_in_which_they_are_given(self) -> None:
        executor, table, other = self.make(), torch.arange(6.0).reshape(3, 2), torch.zeros(3, 2)
        for _ in range(2):  # the same object may be placed again
            placed = [executor.place(value) for value in (table, other)]
            found = torch.stack(list(executor.map(_both, [2, 0], *placed)))
            wanted = torch.cat([table, other], dim=1)[[2, 0]]
            promise(same_bytes(found, wanted), "Placed values come otherwise, or in another order")
        later = table + 1
        (row,) = executor.map(_both, [1], executor.place(later), executor.place(other))
        promise(same_bytes(row[:2], later[1]), "A value that is placed later is not the one that comes")

    def test_an_error_in_a_block_reaches_the_caller(self) -> None:
        executor = self.make()
        promise_refused(
            ZeroDivisionError, "A block that divides by zero", lambda: list(executor.map(_inverse, [1, 0]))
        )

    def test_a_pass_a_loss_and_a_gradient_are_those_of_local_to_the_last_bit(self) -> None:
        data = small_data()
        rng = np.random.default_rng(0)
        tables = [torch.from_numpy(rng.normal(0, 0.5, (n, 3))).float() for n in (13, 11)]
        model = ENMF(tables[0], tables[1], Objective(w0=0.3, l2=0.1), torch.tensor([0.5, 1.0, 1.5]))
        here, there = (
            Sweeper(ah_newton, block_rows=4, executor=executor, solve_shared=True)
            for executor in (Local(), self.make())
        )
        promise(here.loss(model, data) == there.loss(model, data), "A loss is another than with `Local`")
        norms = here.gradient_norm(model, data), there.gradient_norm(model, data)
        promise(norms[0] == norms[1], "A gradient's norm is another than with `Local`")
        wanted, found = (sweeper.sweep(model, data, Rows.occupied(data)) for sweeper in (here, there))
        for name, value in found.parameters().items():
            promise(
                same_bytes(value, wanted.parameters()[name]),
                f"A pass leads to other {name} than with `Local`",
            )

    def test_says_whether_blocks_run_in_this_process(self) -> None:
        promise(isinstance(self.make().in_process, bool), "`in_process` is neither True nor False")


# Functions of the module, so that they can be sent elsewhere.


def _shifted(longest: float, block: int, shift: Tensor) -> int:
    time.sleep(longest * (5 - block))
    return block + int(shift)


def _both(block: int, table: Tensor, other: Tensor) -> Tensor:
    return torch.cat([table[block], other[block]])


def _inverse(block: int) -> float:
    return 1 / block
