"""An executor with processes of its own: the smallest thing that shares no memory, as a cluster shares none."""

from __future__ import annotations

import io
import itertools
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ClassVar, Self

import numba
import torch


@dataclass(frozen=True, eq=False)
class Handle:
    """Who holds it holds the value, so that its file stays."""

    file: Path
    value: Any


class Pool:
    """Blocks in new processes; placed values in files, written once for each object and removed when it is gone."""

    in_process: ClassVar[bool] = False

    def __init__(self, n_workers: int = 2) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._pool = ProcessPoolExecutor(n_workers, get_context("spawn"), initializer=_one_thread)
        self._files: dict[int, Path] = {}
        self._numbers = itertools.count()
        self.n_blocks = 0
        self.n_placed: dict[str, int] = {}  # by the name of the type

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()
        self._folder.cleanup()

    def place(self, value: Any) -> Handle:
        if id(value) not in self._files:
            file = Path(self._folder.name) / f"{next(self._numbers)}"
            file.write_bytes(_packed(value))
            self._files[id(value)] = file
            self.n_placed[type(value).__name__] = self.n_placed.get(type(value).__name__, 0) + 1
            weakref.finalize(value, self._remove, id(value)).atexit = False
        return Handle(self._files[id(value)], value)

    def _remove(self, key: int) -> None:
        self._files.pop(key).unlink(missing_ok=True)

    def map(self, function: Callable[..., Any], blocks: Iterable[Any], *placed: Handle) -> Iterator[Any]:
        tasks = [_packed((function, block)) for block in blocks]
        self.n_blocks += len(tasks)
        yield from map(_unpacked, self._pool.map(partial(_run, [each.file for each in placed]), tasks))


def _one_thread() -> None:
    """As many threads as the tests have: those of torch's matrix products may change the order of a sum."""
    torch.set_num_threads(1)
    numba.set_num_threads(1)


def _run(placed: list[Path], task: bytes) -> bytes:
    function, block = _unpacked(task)
    return _packed(function(block, *map(_placed, placed)))


@lru_cache(maxsize=16)
def _placed(file: Path) -> Any:
    return _unpacked(file.read_bytes())


def _packed(value: Any) -> bytes:
    packed = io.BytesIO()
    torch.save(value, packed)
    return packed.getvalue()


def _unpacked(packed: bytes) -> Any:
    return torch.load(io.BytesIO(packed), weights_only=False)
