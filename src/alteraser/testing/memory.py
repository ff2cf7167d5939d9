"""Whether an object holds interactions: a walk through all that it holds."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp
import torch

from alteraser.data.csr import CSR
from alteraser.data.interactions import Interactions, Side

DATA = (Interactions, CSR, pl.DataFrame, pl.LazyFrame, pl.Series, sp.sparray, sp.spmatrix)
PLAIN = (str, bytes, int, float, complex, bool, type(None), type, ModuleType, torch.dtype, np.dtype)


def held_data(root: object, data: Interactions) -> list[str]:
    """Where an object holds tables of interactions, or anything as long as those of `data`: paths to it."""
    n_pairs, matrix = data.by(Side.USERS).n_entries, (data.n_users, data.n_items)
    found = []
    for path, value in _walk(root):
        shape = _shape(value)
        if isinstance(value, DATA) or n_pairs in shape or shape == matrix or _total(value) == n_pairs:
            found.append(f"{path} ({type(value).__name__})")
    return found


def _walk(root: object) -> Iterator[tuple[str, Any]]:
    """All that can be reached from an object, and how."""
    known, waiting = set(), [(type(root).__name__, root)]
    while waiting:
        path, value = waiting.pop()
        if id(value) in known or isinstance(value, PLAIN):
            continue
        known.add(id(value))
        yield path, value
        if not isinstance(value, DATA):
            waiting += [(f"{path}.{name}", part) for name, part in _parts(value)]


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, torch.Tensor):
        yield "grad", value.grad
        return
    if isinstance(value, Mapping):
        yield from ((str(place), part) for place, part in enumerate([*value.keys(), *value.values()]))
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((str(place), part) for place, part in enumerate(value))
    elif isinstance(value, np.ndarray):
        yield "base", value.base
    if isinstance(value, MethodType):
        yield "self", value.__self__
    if isinstance(value, FunctionType):
        yield from inspect.getclosurevars(value).nonlocals.items()
    yield from getattr(value, "__dict__", {}).items()
    for kind in type(value).__mro__:
        names: Iterable[str] = getattr(kind, "__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if hasattr(value, name):
                yield name, getattr(value, name)


def _shape(value: Any) -> tuple[int, ...]:
    if isinstance(value, np.ndarray | torch.Tensor):
        return tuple(value.shape)
    return (len(value),) if isinstance(value, Mapping | list | tuple | set | frozenset) else ()


def _total(value: Any) -> int:
    """How many a container of containers holds, as a list of items for each user."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, list | tuple) or len(value) < 2:
        return 0
    inner = [_shape(part) for part in value]
    return sum(shape[0] for shape in inner) if all(len(shape) == 1 for shape in inner) else 0
