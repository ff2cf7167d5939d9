"""Where the blocks of rows are run: passes, Gram matrices, losses and gradient norms all go through an executor.

An engine for many machines brings an executor of its own, and nothing else in this room changes. Which rows make a
block is not its business: blocks and the order in which their answers are added are fixed, so that the number of
processes or threads changes no bit of a result. (The last bit may change with the machine code: between different
processors, and between a process that compiles the kernels and one that finds them in numba's cache.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from alteraser.models.blocks import Term, in_order

Answer = TypeVar("Answer")


class Executor(Protocol):
    """Puts values where blocks are run, and runs them."""

    @property
    def in_process(self) -> bool:
        """Whether blocks run in this process, so that methods which keep large matrices here may do without it."""
        ...

    def place(self, value: Any) -> Any:
        """A handle of a value that the blocks to come will need: interactions, tables, weights.

        It serves for as long as it is held. Values can be pickled and do not change. The same object may be placed
        again and again, as the interactions are for every pass: an executor to which sending is dear remembers what it
        has sent while the object lives.
        """
        ...

    def map(self, function: Callable[..., Answer], blocks: Iterable[Any], *placed: Any) -> Iterator[Answer]:
        """function(block, *values) of every block, in the order of the blocks, with the values that were placed.

        The function can be pickled, as can blocks and answers.
        """
        ...


@dataclass(frozen=True)
class Local:
    """One block after another in this process; the kernels inside a block use all threads."""

    in_process: ClassVar[bool] = True

    def place(self, value: Any) -> Any:
        return value

    def map(self, function: Callable[..., Answer], blocks: Iterable[Any], *placed: Any) -> Iterator[Answer]:
        return (function(block, *placed) for block in blocks)


@dataclass(frozen=True)
class SumBy:
    """Sums over blocks that an executor runs: what a model is given to compute its loss with."""

    executor: Executor

    def __call__(self, function: Callable[..., Term], blocks: Iterable[Any], *values: Any) -> Term:
        placed = [self.executor.place(value) for value in values]
        return in_order(self.executor.map(function, blocks, *placed))
