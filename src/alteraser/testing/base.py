"""What all suites share: how a promise is put, and data to check it on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from alteraser.data.interactions import Interactions, Vocabulary


class Contract(ABC):
    """A suite: every method `test_…` checks one promise and raises `AssertionError` where it is not kept.

    pytest finds them in a subclass whose name begins with `Test`; `check` and `broken` need no pytest.
    """

    @abstractmethod
    def make(self, *args: Any, **kwargs: Any) -> Any:
        """What is checked, made anew."""

    def broken(self) -> dict[str, str]:
        """The promises that are not kept, by the name of their test, each with what was found."""
        found = {}
        for name in dir(self):
            if name.startswith("test_"):
                try:
                    getattr(self, name)()
                except Exception as error:  # a promise is broken by whatever is raised
                    found[name] = f"{type(error).__name__}: {error}"
        return found

    def check(self) -> None:
        """Raises `AssertionError` unless every promise is kept."""
        found = self.broken()
        promise(not found, "\n".join(f"{name}: {why}" for name, why in found.items()))


def promise(kept: bool | np.bool_ | Tensor, message: str) -> None:
    """Raises unless the promise is kept; `message` says what was promised."""
    if not bool(kept):
        raise AssertionError(message)


def promise_close(found: Tensor, wanted: Tensor, tolerance: float, message: str) -> None:
    """Raises unless what was found is within `tolerance` of what is wanted, relative to its norm."""
    promise(found.shape == wanted.shape, f"{message}: shape {tuple(found.shape)}, not {tuple(wanted.shape)}")
    error = float((found.double() - wanted.double()).norm())
    scale = max(float(wanted.double().norm()), torch.finfo(torch.float64).tiny)
    promise(
        error <= tolerance * scale, f"{message}: off by {error / scale:.1e} of it, {tolerance:.0e} is allowed"
    )


def promise_refused(
    error: type[Exception], what: str, call: Callable[..., object], *given: object, **options: object
) -> None:
    """Raises unless the call raises that error; `what` says what is to be refused."""
    try:
        call(*given, **options)
    except error:
        return
    except Exception as other:
        raise AssertionError(f"{what}: {error.__name__} is wanted, {type(other).__name__} came") from other
    raise AssertionError(f"{what}: {error.__name__} is wanted, nothing was raised")


def small_data(
    n_users: int = 13, n_items: int = 11, *, seed: int = 0, density: float = 0.4, empty: bool = False
) -> Interactions:
    """Random interactions with confidences, ids "u0", "i0" and on; `empty` leaves the last user and item without any.

    Everybody else has an interaction, and no pair comes twice.
    """
    rng = np.random.default_rng(seed)
    matrix = rng.random((n_users, n_items)) < density
    matrix[np.arange(n_users), np.arange(n_users) % (n_items - 1)] = True
    matrix[np.arange(n_items) % (n_users - 1), np.arange(n_items)] = True
    if empty:
        matrix[-1, :] = False
        matrix[:, -1] = False
    users, items = np.nonzero(matrix)
    # Below and above what a missing entry usually weighs, and exact in single precision.
    weights = rng.integers(1, 128, len(users)) / 32
    events = pl.DataFrame(
        {
            "user": pl.Series(users, dtype=pl.Int32),
            "item": pl.Series(items, dtype=pl.Int32),
            "weight": pl.Series(weights, dtype=pl.Float32),
        }
    )
    return Interactions(events, _ids("u", n_users), _ids("i", n_items))


def dense(data: Interactions) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which pairs of `small_data` are there, and what they weigh, as matrices."""
    present = np.zeros((data.n_users, data.n_items), dtype=bool)
    weights = np.zeros(present.shape)
    present[data.users, data.items] = True
    weights[data.users, data.items] = data.events["weight"].to_numpy()
    return present, weights


def slopes(function: Callable[[Tensor], float], at: Tensor, step: float = 1e-5) -> Tensor:
    """The gradient of a function by central differences, entry by entry."""
    gradient = torch.empty_like(at)
    for place in range(at.numel()):
        ends = []
        for sign in (1, -1):
            moved = at.clone()
            moved.view(-1)[place] += sign * step
            ends.append(function(moved))
        gradient.view(-1)[place] = (ends[0] - ends[1]) / (2 * step)
    return gradient


def same_bytes(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same, to the last bit and sign."""
    bits: list[Any] = [each.detach().contiguous().numpy().tobytes() for each in (one, other)]
    return one.dtype == other.dtype and one.shape == other.shape and bits[0] == bits[1]


def _ids(letter: str, number: int) -> Vocabulary:
    return Vocabulary(pl.Series([f"{letter}{row}" for row in range(number)]))


def noise(like: Tensor, *, seed: int) -> Tensor:
    """Random numbers in the shape of a tensor."""
    return torch.from_numpy(np.random.default_rng(seed).normal(size=tuple(like.shape))).to(like.dtype)
