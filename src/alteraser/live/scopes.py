"""Which rows may move when a model forgets, and how far: each scope has the settings that it uses and no others."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from alteraser.errors import SettingError
from alteraser.optim.minimize import Solver
from alteraser.optim.newton import ah_newton
from alteraser.sweep.accelerate import Anderson
from alteraser.sweep.executors import Executor, Local


class Scope(Protocol):
    """Which rows a request may move; steps end when no more than `tolerance` is left of the gap that it opened.

    `training_gap` is the share of the original's own residual that is kept, as the state is built: with 1 an original
    that stopped short of its optimum is not trained on, with 0 rows go to the optimum.
    """

    @property
    def tolerance(self) -> float: ...

    @property
    def max_steps(self) -> int: ...

    @property
    def training_gap(self) -> float: ...


@dataclass(frozen=True)
class AutoRows:
    """Steps of the rows that the request affects, or of all rows where that is cheaper.

    The default tolerance and the limit of steps are set by hand: to an estimated 1 % of the gap half steps still lead,
    and they cost a request of one user little. A live model, in whose requests every millisecond counts, stops at 30 %.
    """

    tolerance: float = 0.06
    max_steps: int = 32
    training_gap: float = 1.0

    def __post_init__(self) -> None:
        check_scope(self)


@dataclass(frozen=True)
class AffectedRows:
    """Steps of the rows that entries of the request's own rows, and of those that have moved, lead to.

    The default tolerance, of which an estimated 0.2 % is left, takes joint steps of these rows: set by hand.
    """

    tolerance: float = 0.012
    max_steps: int = 32
    training_gap: float = 1.0

    def __post_init__(self) -> None:
        check_scope(self)


@dataclass(frozen=True)
class AllRows:
    """Joint Newton steps of all rows.

    The default tolerance leaves about as much of the gap as accelerated passes did that ended when one of them lowered
    the loss by less than 1e-5; compared on ml-1m, amazon-14core and kuairec-binary.
    """

    tolerance: float = 5e-4
    max_steps: int = 16
    training_gap: float = 1.0

    def __post_init__(self) -> None:
        check_scope(self)


@dataclass(frozen=True)
class ForgettingRows:
    """One pass over the rows of the users and items that lose interactions: the first of Algorithm 1 in the paper.

    `solve_shared` adds the step for the parameters that belong to no row (Φ, here h).
    """

    solver: Solver = ah_newton
    block_rows: int = 4096
    executor: Executor = Local()
    solve_shared: bool = False

    def __post_init__(self) -> None:
        check_blocks(self.block_rows)

    tolerance = 0.0  # never met: nothing follows the pass
    max_steps = 0
    training_gap = 1.0


@dataclass(frozen=True)
class Passes:
    """Algorithm 1 of the paper: a pass over the forgetting rows, then passes over all, each row solved by `solver`.

    A pass solves users while items are fixed, then items. With `acceleration` it starts from a guess for the items;
    None gives the paper's passes, and so does `solve_shared`, the step for parameters that belong to no row, after
    which the items of two passes cannot be compared. Rows are handed to the solver in blocks of `block_rows`,
    which the executor runs.
    """

    solver: Solver = ah_newton
    tolerance: float = 5e-4
    max_passes: int = 16
    training_gap: float = 1.0
    acceleration: Anderson | None = Anderson()
    block_rows: int = 4096
    executor: Executor = Local()
    solve_shared: bool = False

    def __post_init__(self) -> None:
        check_scope(self)
        check_blocks(self.block_rows)
        if self.solve_shared and self.acceleration is not None:
            raise SettingError(
                "Both solve_shared and acceleration came; pass acceleration=None with solve_shared."
            )

    @property
    def max_steps(self) -> int:
        return self.max_passes


def check_scope(scope: Scope) -> None:
    """Raises unless the settings that all scopes share are in their ranges."""
    if scope.max_steps < 0 or not 0 <= scope.tolerance < 1:
        raise SettingError(
            f"max_steps is {scope.max_steps} and tolerance {scope.tolerance}; a whole number from 0 up and a number "
            f"from 0 to below 1 are wanted."
        )
    if not 0 <= scope.training_gap <= 1:
        raise SettingError(f"training_gap is {scope.training_gap}; a number from 0 to 1 is wanted.")


def check_blocks(block_rows: int) -> None:
    if block_rows < 1:
        raise SettingError(f"block_rows is {block_rows}; a whole number from 1 up is wanted.")


SCOPES: dict[str, AutoRows | ForgettingRows | AffectedRows | AllRows | Passes] = {
    "auto": AutoRows(),
    "forgetting": ForgettingRows(),
    "affected": AffectedRows(),
    "all": AllRows(),
}
"""The scopes with their default settings, by the names that the command knows them by."""


def named_scope(
    name: str,
    *,
    solver: Solver | None = None,
    solve_shared: bool | None = None,
    tolerance: float | None = None,
    max_passes: int | None = None,
) -> Scope:
    """The scope of that name with those settings that are given; one that it does not have is refused.

    "all" with a solver, or with the step for shared parameters, is `Passes`.
    """
    if name not in SCOPES:
        raise SettingError(f"scope is {name!r}; it must be one of {', '.join(SCOPES)}.")
    if max_passes is not None and max_passes < 0:
        raise SettingError(f"max_passes is {max_passes}; a whole number from 0 up is wanted.")
    in_passes = name == "forgetting" or solver is not None or bool(solve_shared)
    settings = {
        "solver": solver,
        "solve_shared": solve_shared or None,  # no is what every scope does anyway
        "tolerance": tolerance,
        "max_passes" if in_passes else "max_steps": max_passes,
    }
    given: dict[str, Any] = {setting: value for setting, value in settings.items() if value is not None}
    scope = SCOPES[name]
    if name == "all" and in_passes:
        scope = Passes(acceleration=None) if solve_shared else Passes()
    known = [field.name for field in fields(scope)]
    if unknown := given.keys() - set(known):
        raise SettingError(
            f"{', '.join(sorted(unknown))} came with scope {name!r}, which has {', '.join(known)}. Leave it out, or "
            f"take another scope."
        )
    return replace(scope, **given)
