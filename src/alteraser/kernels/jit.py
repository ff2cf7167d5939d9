"""How the kernels are compiled: one place, so that all share the same arithmetic and cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

WORTH_WAKING = 2e6  # operations
# Sums may be reordered and fused so that loops vectorise; nan and inf keep their meaning.
_FAST = {"contract", "reassoc", "nsz", "arcp"}


def compiled(kernel: Kernel) -> Kernel:
    """The function as machine code, compiled at first use and cached on disk."""
    return cast(Kernel, numba.njit(cache=True, fastmath=_FAST, error_model="numpy")(kernel))


def threaded(kernel: Kernel) -> Kernel:
    """As `compiled`, its `prange` loops spread over threads."""
    return cast(Kernel, numba.njit(cache=True, fastmath=_FAST, error_model="numpy", parallel=True)(kernel))


@contextmanager
def threads_for(operations: float) -> Iterator[None]:
    """`threaded` kernels use one thread where there is little to do: to wake others would take longer."""
    before = n_threads()
    numba.set_num_threads(before if operations >= WORTH_WAKING else 1)
    try:
        yield
    finally:
        numba.set_num_threads(before)


def n_threads() -> int:
    """How many threads a `threaded` kernel uses now."""
    return int(numba.get_num_threads())
