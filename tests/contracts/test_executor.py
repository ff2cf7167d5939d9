"""Executors keep their promises, in this process and in others; and ones that do not are found out."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from alteraser.sweep.executors import Executor, Local
from alteraser.testing import ExecutorContract
from tests.sweep.pool import Pool


class TestLocal(ExecutorContract):
    def make(self) -> Local:
        return Local()


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool() as pool:
        yield pool


class TestPool(ExecutorContract):
    @pytest.fixture(autouse=True)
    def _pool(self, pool: Pool) -> None:
        self.pool = pool

    def make(self) -> Executor:
        return self.pool


@dataclass(frozen=True)
class FirstDoneFirst:
    """Answers as they come."""

    in_process: ClassVar[bool] = True

    def place(self, value: Any) -> Any:
        return value

    def map(self, function: Any, blocks: Any, *placed: Any) -> Iterator[Any]:
        with ThreadPoolExecutor(5) as threads:
            waiting = [threads.submit(function, block, *placed) for block in blocks]
            yield from (each.result() for each in as_completed(waiting))


class Swallows(FirstDoneFirst):
    def map(self, function: Any, blocks: Any, *placed: Any) -> Iterator[Any]:
        for block in blocks:
            try:
                yield function(block, *placed)
            except ArithmeticError:
                yield 0.0


class PlacesOnce(FirstDoneFirst):
    """Takes whatever is placed for what was placed first."""

    first: ClassVar[dict[type, Any]] = {}

    def place(self, value: Any) -> Any:
        return self.first.setdefault(type(value), value)

    def map(self, function: Any, blocks: Any, *placed: Any) -> Iterator[Any]:
        return (function(block, *placed) for block in blocks)


class Halves(FirstDoneFirst):
    """Sums in single precision what was to be summed in double."""

    def map(self, function: Any, blocks: Any, *placed: Any) -> Iterator[Any]:
        for block in blocks:
            answer = function(block, *placed)
            yield answer * (1 + 1e-6) if isinstance(answer, float) else answer


@pytest.mark.parametrize(
    ("kind", "test"),
    [
        (FirstDoneFirst, "test_answers_come_in_the_order_of_the_blocks"),
        (Swallows, "test_an_error_in_a_block_reaches_the_caller"),
        (PlacesOnce, "test_placed_values_come_in_the_order_in_which_they_are_given"),
        (Halves, "test_a_pass_a_loss_and_a_gradient_are_those_of_local_to_the_last_bit"),
    ],
)
def test_an_executor_that_breaks_its_promise_is_found_out(kind: Any, test: str) -> None:
    class Checked(ExecutorContract):
        def make(self) -> Any:
            return kind()

    assert test in Checked().broken()
