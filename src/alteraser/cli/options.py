"""Options that several commands share, and how they turn into data. Nothing here imports torch."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_type_hints

import typer

if TYPE_CHECKING:
    from numpy.random import Generator

    from alteraser.data.interactions import Interactions
    from alteraser.data.read_options import ReadOptions

Command = TypeVar("Command", bound=Callable[..., None])

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an output that exists already.")]
Seed = Annotated[int, typer.Option(help="Seed of all that is random; the same seed gives the same result.")]
Data = Annotated[
    str, typer.Argument(metavar="DATA", help="A file, or the name of a data set.", show_default=False)
]
ModelPath = Annotated[
    Path, typer.Argument(metavar="MODEL", help="The folder of a trained model.", show_default=False)
]
RequestFile = Annotated[
    Path, typer.Option(metavar="FILE", help="What to forget: CSV, Parquet or JSON-lines.", show_default=False)
]
MissingOption = Annotated[
    Literal["error", "ignore"],
    typer.Option(
        help="What to do with requests that match nothing in the data: refuse all, or skip and count them."
    ),
]


def example(*lines: str) -> str:
    """The end of a help text: lines to copy, which are not wrapped."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def random_generator(seed: int, purpose: str, number: int = 0) -> Generator:
    """A stream of random numbers for each purpose and, where it comes again, each time.

    Two commands with the same seed must not draw the same numbers: a retraining that starts where the original
    started is no independent witness.
    """
    import numpy as np

    from alteraser.errors import SettingError

    if seed < 0:
        raise SettingError(f"--seed is {seed}; a whole number from 0 up is wanted.")
    # Not a 0 at the end: numpy gives [5] and [5, 0] the same stream.
    return np.random.default_rng([seed, *purpose.encode(), number + 1])


def _option(flag: str, text: str, metavar: str) -> Any:
    return typer.Option(flag, help=text, metavar=metavar, show_default=False)


DataDir = Annotated[
    Path | None,
    _option(
        "--data-dir", "Where named data sets lie, if not in $ALTERASER_DATA or ~/.cache/alteraser.", "DIR"
    ),
]


@dataclass(frozen=True)
class DataOptions:
    """Where data is looked for and how it is read; what is not given follows the data set or the model."""

    data_dir: DataDir = None
    user: Annotated[
        str | None,
        _option("--user-column", "Column of the user ids, if not user_id, userId or the like.", "NAME"),
    ] = None
    item: Annotated[
        str | None,
        _option("--item-column", "Column of the item ids, if not item_id, movieId or the like.", "NAME"),
    ] = None
    weight: Annotated[
        str | None, _option("--weight-column", "Column of confidences; else each positive weighs 1.", "NAME")
    ] = None
    time: Annotated[str | None, _option("--time-column", "Column of times.", "NAME")] = None
    rating: Annotated[
        str | None,
        _option("--rating-column", "Column that --min-rating cuts, if not rating, stars or score.", "NAME"),
    ] = None
    min_rating: Annotated[float | None, _option("--min-rating", "Drop ratings below this.", "X")] = None
    any_rating: Annotated[
        bool | None, typer.Option("--any-rating", help="Take all ratings, low ones too.", show_default=False)
    ] = None
    min_interactions: Annotated[
        int | None, _option("--min-interactions", "Keep the k-core: drop users and items with fewer.", "K")
    ] = None
    merge: Annotated[
        Literal["max", "sum", "last"] | None,
        _option("--merge", "How the weights of a repeated pair become one.", "max|sum|last"),
    ] = None
    weight_offset: Annotated[
        float | None,
        _option(
            "--weight-offset", "A pair whose events merge to r weighs this + slope·r; 0 if not given.", "X"
        ),
    ] = None
    weight_slope: Annotated[
        float | None,
        _option(
            "--weight-slope", "A pair whose events merge to r weighs offset + this·r; 1 if not given.", "X"
        ),
    ] = None
    separator: Annotated[
        str | None,
        _option(
            "--separator", "What stands between fields, as ';' or '::', if the ending does not tell.", "TEXT"
        ),
    ] = None
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether the first line names the columns. Without one they are named by their places, as 1 and 2.",
            show_default=False,
        ),
    ] = None

    def read_options(self, name_or_path: str, base: ReadOptions | None = None) -> ReadOptions:
        """How to read: `base` (that of a model) or the data set's own way, with the options given on top."""
        from alteraser.data.datasets import usual_read_options

        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "data_dir"}
        if self.separator is not None:
            given["separator"] = self.separator.replace("\\t", "\t")  # as shells pass '\t'
        return (base or usual_read_options(name_or_path)).with_options(
            {k: v for k, v in given.items() if v is not None}
        )

    def open(self, name_or_path: str, base: ReadOptions | None = None) -> Interactions:
        return self.read(name_or_path, self.read_options(name_or_path, base))

    def open_test(self, name_or_path: str, base: ReadOptions) -> Interactions:
        """A held-out part of data that is read as `base` says; it may have another header or separator.

        Only who has what counts. A test part is small: what was a core of the whole would be cut to pieces.
        """
        from alteraser.data.datasets import is_dataset
        from alteraser.data.files import in_own_form

        unused: dict[str, Any] = {"weight": None, "time": None, "merge": "max", "min_interactions": None}
        unused |= {"weight_offset": 0.0, "weight_slope": 1.0}
        read_options = self.read_options(name_or_path, base).with_options(unused)
        if not is_dataset(name_or_path) and Path(name_or_path).is_file():
            read_options = in_own_form(name_or_path, read_options)
        return self.read(name_or_path, read_options)

    def read(self, name_or_path: str, read_options: ReadOptions) -> Interactions:
        """The data read in just this way, whatever the options for it say."""
        from alteraser.data.datasets import open_data

        return open_data(name_or_path, data_dir=self.data_dir, read_options=read_options)


def reads_data(command: Command) -> Command:
    """The command with the options of `DataOptions` added; it receives them as its argument `options`."""
    return takes_group(command, "options", DataOptions, last=True)


def takes_group(command: Command, argument: str, group: type[Any], *, last: bool = False) -> Command:
    """The command with an option for each field of a dataclass, which it receives as that argument.

    Help lists them in the place of the argument or, if asked for, last.
    """
    hints = get_type_hints(command, include_extras=True)
    added = get_type_hints(group, include_extras=True)
    names = {f"{argument}_{field.name}": field for field in fields(group)}

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        given = group(**{field.name: arguments.pop(name) for name, field in names.items()})
        command(**arguments, **{argument: given})

    own = list(inspect.signature(command).parameters.values())
    place = len(own) if last else [p.name for p in own].index(argument)
    extra = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=added[field.name]
        )
        for name, field in names.items()
    ]
    kept = [
        each
        if each.name == argument
        else each.replace(annotation=hints[each.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for each in own
    ]
    parameters = [p for p in (*kept[:place], *extra, *kept[place:]) if p.name != argument]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run  # type: ignore[return-value]
