"""The kinds of models that can be written to a folder and read again, by name.

A package with a model of its own calls `register` where it defines the class; whoever reads a folder of that kind
imports the package first. The built-in kinds are imported when asked for, so that their names alone cost no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from alteraser.errors import ModelFileError, SettingError

if TYPE_CHECKING:
    import numpy as np
    import torch

    from alteraser.data.interactions import Interactions
    from alteraser.models.base import Storable
    from alteraser.models.objective import Objective

Class = TypeVar("Class", bound="type[Storable]")
_BUILT_IN = {"enmf": "alteraser.models.enmf", "mf": "alteraser.models.mf"}  # and the module that registers it
_REGISTERED: dict[str, type[Storable]] = {}


@runtime_checkable
class _Sized(Protocol):
    """A class of models that can begin with random rows for data and an `Objective`."""

    def sized_for(
        self,
        data: Interactions,
        *,
        dim: int,
        objective: Objective | None,
        rng: np.random.Generator,
        dtype: torch.dtype,
    ) -> Any: ...


def register(model: Class) -> Class:
    """Make a class of models known by its `kind`; it may stand above the class as a decorator."""
    wanted = ("kind", "tensors", "settings", "from_tensors", "keep_rows")
    missing = [name for name in wanted if not hasattr(model, name)]
    if missing:
        raise SettingError(
            f"{model.__name__} cannot be registered: it has no {', '.join(missing)}. See `alteraser.Storable`."
        )
    known = _REGISTERED.get(model.kind)
    # A class that was loaded anew, as in a notebook, is the same: its module and name are.
    owner = _BUILT_IN.get(model.kind, model.__module__) if known is None else known.__module__
    if owner != model.__module__ or (known is not None and known.__qualname__ != model.__qualname__):
        raise SettingError(
            f"The kind {model.kind!r} of {model.__name__} is taken by another class. Give it another `kind`."
        )
    _REGISTERED[model.kind] = model
    return model


def kinds() -> tuple[str, ...]:
    """The names that are known."""
    return tuple(sorted({*_BUILT_IN, *_REGISTERED}))


def registered(kind: str) -> type[Storable]:
    """The class of a kind."""
    if kind in _BUILT_IN and kind not in _REGISTERED:
        import_module(_BUILT_IN[kind])
    if kind not in _REGISTERED:
        raise ModelFileError(
            f"A model of kind {kind!r} came; known are {', '.join(kinds())}. Import the package that defines it, or "
            f"`alteraser.register` its class, before the model is read; a newer alteraser may know it, too."
        )
    return _REGISTERED[kind]


def untrained(
    kind: str,
    data: Interactions,
    *,
    dim: int,
    objective: Objective,
    rng: np.random.Generator,
    dtype: torch.dtype,
) -> Storable:
    """A model of that kind with a random row for each user and item of `data`."""
    model: object = registered(kind)
    if not isinstance(model, _Sized):
        raise SettingError(
            f"A model of kind {kind!r} cannot be made from an objective: its class has no `sized_for`. Train it with "
            f"the package that defines it."
        )
    made: Storable = model.sized_for(data, dim=dim, objective=objective, rng=rng, dtype=dtype)
    return made
