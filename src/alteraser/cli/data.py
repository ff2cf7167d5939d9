"""`alteraser data`: fetch data sets, look at interactions, convert and split them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from alteraser.cli.options import (
    Data,
    DataDir,
    DataOptions,
    Force,
    Json,
    Seed,
    example,
    random_generator,
    reads_data,
)
from alteraser.cli.output import download_progress, note, print_table, show

if TYPE_CHECKING:
    from numpy.random import Generator

    from alteraser.data.interactions import Interactions

ArchiveName = Literal["ml-1m", "ml-100k"]
HowToSplit = Literal["random", "time", "last"]

app = typer.Typer(
    help="Fetch data sets, look at interactions, convert and split them.",
    epilog=example("alteraser data describe synthetic"),
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(epilog=example("alteraser data fetch ml-1m"))
def fetch(
    name: Annotated[
        ArchiveName, typer.Argument(metavar="NAME", help="ml-1m or ml-100k.", show_default=False)
    ],
    data_dir: DataDir = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Download a data set from GroupLens, show its terms, check it, and put it where its name is looked for."""
    from alteraser.data.archives import ARCHIVES
    from alteraser.data.fetch import fetch_dataset

    archive = ARCHIVES[name]
    note(archive.terms)
    with download_progress(f"Downloading {name}") as progress:
        fetched = fetch_dataset(name, data_dir=data_dir, force=force, progress=progress)
    result = {
        "name": name,
        "url": fetched.url,
        "md5": archive.md5,
        "out": str(fetched.path),
        "interactions": fetched.n_interactions,
        "terms": archive.terms,
    }

    def human(to: Console) -> None:
        to.print(f"{fetched.n_interactions} interactions of {name} written to {fetched.path}")

    show(result, as_json=json, human=human)


@app.command(epilog=example("alteraser data describe ratings.csv --user-column user --item-column movie"))
@reads_data
def describe(data: Data, options: DataOptions, json: Json = False) -> None:
    """Say how many users, items and interactions there are, how they are spread, and when they happened."""
    from alteraser.report.datasheet import datasheet

    sheet = datasheet(options.open(data))
    show(sheet.to_dict(), as_json=json, human=lambda out: print_table(out, sheet.table(data)))


@app.command(epilog=example("alteraser data convert ml-100k.inter ratings.parquet --min-rating 4"))
@reads_data
def convert(
    data: Data,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A .csv or .parquet file.", show_default=False)],
    options: DataOptions,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write the interactions as CSV or Parquet with the columns user_id, item_id and, if known, weight and time."""
    from alteraser.data.files import write_interactions
    from alteraser.data.writing import make_table_ready

    make_table_ready(out, force=force)
    interactions = options.open(data)
    write_interactions(interactions, out, force=force)
    result = {"out": str(out), "interactions": len(interactions)}
    show(
        result, as_json=json, human=lambda to: to.print(f"{len(interactions)} interactions written to {out}")
    )


@app.command(
    epilog=example(
        "alteraser data split ratings.csv --how random --fraction 0.2 \\",
        "  --train train.parquet --test test.parquet",
    )
)
@reads_data
def split(
    data: Data,
    train: Annotated[
        Path, typer.Option(metavar="FILE", help="Where the part to learn from goes.", show_default=False)
    ],
    test: Annotated[
        Path, typer.Option(metavar="FILE", help="Where the part to judge by goes.", show_default=False)
    ],
    options: DataOptions,
    how: Annotated[
        HowToSplit,
        typer.Option(help="Per user: at random, the latest share in time, or the last interaction alone."),
    ] = "random",
    fraction: Annotated[
        float | None,
        typer.Option(
            help="random, time: the share of each user's items that goes to the test part.",
            show_default="0.2",
        ),
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Split the interactions of every user into a part to learn from and a part to judge by."""
    from alteraser.data.writing import make_table_ready, staged_frame
    from alteraser.errors import SettingError

    if how == "last" and fraction is not None:
        raise SettingError("--fraction is a setting of --how random and time; with last each user gives one.")
    if train.resolve() == test.resolve():
        raise SettingError("--train and --test name the same file; two files are wanted.")
    for path in (train, test):
        make_table_ready(path, force=force)
    rng = random_generator(seed, "split")
    parts = _parts(options.open(data), how, 0.2 if fraction is None else fraction, rng)
    with (
        staged_frame(parts[0].to_frame(), train, force=force),
        staged_frame(parts[1].to_frame(), test, force=force),
    ):
        pass  # both are written before either takes its place
    result = {"train": {"out": str(train), "interactions": len(parts[0])}}
    result["test"] = {"out": str(test), "interactions": len(parts[1])}

    def human(to: Console) -> None:
        to.print(f"{len(parts[0])} interactions written to {train}, {len(parts[1])} to {test}")

    show(result, as_json=json, human=human)


def _parts(
    data: Interactions, how: HowToSplit, fraction: float, rng: Generator
) -> tuple[Interactions, Interactions]:
    from alteraser.data.split import holdout, leave_last_out, split_by_time

    if how == "random":
        return holdout(data, fraction=fraction, rng=rng)
    return split_by_time(data, fraction=fraction) if how == "time" else leave_last_out(data)
