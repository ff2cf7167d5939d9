"""Where the blocks of a pass are solved. An engine for many machines only replaces `map`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Answer = TypeVar("Answer")


class Executor(Protocol):
    """Applies a function to every task; answers come in the order of the tasks."""

    def map(self, function: Callable[[Task], Answer], tasks: Iterable[Task]) -> Iterator[Answer]: ...


@dataclass(frozen=True)
class Serial:
    """One block after another; the kernels inside a block use all threads."""

    def map(self, function: Callable[[Task], Answer], tasks: Iterable[Task]) -> Iterator[Answer]:
        return map(function, tasks)
