"""Compiles kernels before they are called, so that no clock counts it: for the types that their annotations name."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numba
import numpy as np
from numba import types as untyped_types
from numba.core import event

# All modules with kernels: what is not imported here is compiled at its first call.
from alteraser.kernels import descent, editing, entries, hessian_products, residuals, rows, tiles
from alteraser.kernels.jit import KERNELS, n_threads

types: Any = untyped_types
MODULES = (descent, editing, entries, hessian_products, residuals, rows, tiles)
PRECISIONS = ("float32", "float64")
_READY: set[str] = set()  # the precisions that need nothing more in this process
_log = logging.getLogger(__name__)


def warm_up(*precisions: str) -> int:
    """Compiles the kernels that numba's cache lacks and loads the others; returns how many were compiled.

    They are those for models of float32 and float64, or of the precisions given. Compiling is announced by a line in
    the log, which goes to standard error unless logging is configured otherwise. Called again, it does nothing.
    """
    wanted = [each for each in precisions or PRECISIONS if each not in _READY]
    if not (wanted and KERNELS):  # there are none where numba is switched off
        return 0
    return sum(map(_make_ready, wanted))


def _make_ready(precision: str) -> int:
    n_threads()  # starts the threads, here rather than in the thread below
    listener = _CompileListener(precision)
    # In a thread of its own: an exception that a signal raises within the compiler may be lost there.
    with event.install_listener("numba:compile", listener), ThreadPoolExecutor(1) as thread:
        for kernel in KERNELS:
            try:
                thread.submit(kernel.compile, signature(kernel, precision)).result()
            except OSError as error:  # compiled, but not written to the cache
                _log.warning(
                    "What was compiled cannot be kept, so that it will be compiled again: %s. NUMBA_CACHE_DIR may name "
                    "another folder for it.",
                    error.strerror,
                )
    _READY.add(precision)
    return listener.n_compiled


def signature(kernel: Any, precision: str) -> tuple[Any, ...]:
    """The types of a kernel's arguments, as numba calls them, where its floats have this precision."""
    hints = get_type_hints(kernel.py_func, include_extras=True)
    hints.pop("return", None)
    return tuple(_numba_type(hint, precision) for hint in hints.values())


def _numba_type(hint: Any, precision: str) -> Any:
    if hint in (int, float):
        return types.int64 if hint is int else types.float64
    if hasattr(hint, "_fields"):
        fields = get_type_hints(hint, include_extras=True).values()
        return types.BaseTuple.from_types([_numba_type(each, precision) for each in fields], hint)
    array, n_dimensions = hint, 1
    if get_origin(hint) is Annotated:
        array, dimensions = get_args(hint)
        n_dimensions = dimensions.number
    (scalar,) = get_args(get_args(array)[1])
    number = np.dtype(precision if scalar is Any else scalar)
    return types.Array(numba.from_dtype(number), n_dimensions, "C")


class _CompileListener(event.Listener):
    """Says that kernels are being compiled, when the first of them is, and counts them."""

    def __init__(self, precision: str) -> None:
        self._precision, self._announced, self.n_compiled = precision, False, 0

    def on_start(self, event: Any) -> None:
        if not self._announced:
            _log.warning(
                "Compiling once: the kernels for %s are not in numba's cache yet. It takes about half a minute.",
                self._precision,
            )
        self._announced = True
        self.n_compiled += event.data["dispatcher"] in KERNELS

    def on_end(self, event: Any) -> None:
        pass
