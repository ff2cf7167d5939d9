"""How the kernels are compiled and on how many threads they run: in one place, so that all do it alike."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar, cast

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

# Operations that are worth another thread. One core takes 20 µs for them in tiles, 0.15 ms in other sums and 0.5 ms
# where these wait for memory; to wake a thread takes tens of microseconds. An order of magnitude, not tuned.
WORTH_WAKING = 2e6
# Sums may be reordered and fused so that loops vectorise; nan and inf keep their meaning.
_FAST = {"contract", "reassoc", "nsz", "arcp"}
KERNELS: list[Any] = []  # all that Python calls, of the modules that have been imported


def compiled(kernel: Kernel) -> Kernel:
    """Compiles a kernel to machine code for the types of its annotations (`warm_up.py`), cached on disk."""
    return cast(Kernel, _kept(numba.njit(cache=True, fastmath=_FAST, error_model="numpy")(kernel)))


def threaded(kernel: Kernel) -> Kernel:
    """Compiles a kernel as `compiled` does, and spreads its `prange` loops over threads."""
    made = numba.njit(cache=True, fastmath=_FAST, error_model="numpy", parallel=True)(kernel)
    return cast(Kernel, _kept(made))


def inner(function: Kernel) -> Kernel:
    """Compiles a function as a part of the kernels that call it; Python does not."""
    return cast(Kernel, numba.njit(fastmath=_FAST, error_model="numpy")(function))


def _kept(kernel: Any) -> Any:
    if not vars(numba.config)["DISABLE_JIT"]:
        KERNELS.append(kernel)
    return kernel


def threads_for(operations: float) -> AbstractContextManager[None]:
    """Runs `threaded` kernels on one thread if there is so little to do that waking others would take longer."""
    return _OneThread() if operations < WORTH_WAKING else nullcontext()


class _OneThread:
    """A class, not a generator: small requests enter it many times."""

    def __enter__(self) -> None:
        self._before = n_threads()
        numba.set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        numba.set_num_threads(self._before)


def n_threads() -> int:
    """How many threads a `threaded` kernel uses now."""
    return int(numba.get_num_threads())
