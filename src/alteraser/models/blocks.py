"""Sums over blocks of rows that come out the same to the last bit wherever their blocks are run.

The blocks are fixed: their size depends neither on threads nor on machines. Their answers are added in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

Term = TypeVar("Term", float, "Tensor")

# Rows of a table that are converted to double at a time: 16 MiB with 64 dimensions. A usual value; data sets of the
# size of ml-1m are one block, so that nothing is lost where there is little to do.
BLOCK_ROWS = 2**15


class SumBlocks(Protocol):
    """Adds up function(block, *values) over blocks, in their order.

    The function is one of a module, or a `partial` of one with small arguments, so that it can be sent elsewhere.
    """

    def __call__(self, function: Callable[..., Term], blocks: Iterable[Any], *values: Any) -> Term: ...


def sum_here(function: Callable[..., Term], blocks: Iterable[Any], *values: Any) -> Term:
    """One block after another; the kernels inside a block use all threads."""
    return in_order(function(block, *values) for block in blocks)


def in_order(terms: Iterable[Term]) -> Term:
    """The sum of at least one term."""
    return reduce(add, terms)


def blocks_of(n: int, size: int = BLOCK_ROWS) -> list[slice]:
    """n rows (or whatever) in blocks; at least one block, which may be empty."""
    return [slice(begin, min(begin + size, n)) for begin in range(0, max(n, 1), size)]
