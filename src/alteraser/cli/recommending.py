"""`alteraser recommend` and `alteraser similar`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alteraser.cli.options import DataOptions, Force, Json, ModelPath, example, reads_data
from alteraser.cli.output import print_table, show

if TYPE_CHECKING:
    import polars as pl

    from alteraser.data.interactions import Interactions
    from alteraser.versions.version import Version

RECOMMEND_EXAMPLE = example(
    "alteraser recommend model --user 42 -k 10 --exclude ratings.parquet",
    "alteraser recommend model --users users.csv --out lists.parquet",
)
SIMILAR_EXAMPLE = example("alteraser similar model --item 'Baking: Rye sourdough' -k 10")
K = Annotated[int, typer.Option("-k", "--k", metavar="K", help="How many items at most.")]


@reads_data
def recommend(
    model: ModelPath,
    options: DataOptions,
    user: Annotated[
        str | None, typer.Option(metavar="ID", help="The user to recommend to.", show_default=False)
    ] = None,
    users: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Many users: a CSV or Parquet file with a column user_id.",
            show_default=False,
        ),
    ] = None,
    k: K = 10,
    exclude: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Leave out what a user has in this data.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where the lists go (.csv or .parquet).", show_default=False),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """List the items a model recommends to a user, or to many."""
    from alteraser.data.files import read_ids
    from alteraser.data.writing import make_table_ready, write_frame
    from alteraser.errors import SettingError
    from alteraser.versions.version import load_version

    if (user is None) == (users is None):
        raise SettingError("Either --user ID or --users FILE is wanted, not both.")
    if out is not None:
        make_table_ready(out, force=force)
    version = load_version(model)
    asked = [user or ""] if users is None else read_ids(users, "user_id")
    lists = version.recommender.recommend(
        asked,
        k,
        exclude=None if exclude is None else _excluded(version, exclude, options),
        source=None if users is None else str(users),
    )
    if out is not None:
        write_frame(lists, out, force=force)
        result: dict[str, Any] = {"out": str(out), "users": len(asked), "rows": lists.height}
        show(result, as_json=json, human=lambda to: to.print(f"Lists of {len(asked)} users written to {out}"))
        return
    result = {"recommendations": lists.to_dicts()}
    show(result, as_json=json, human=lambda to: print_table(to, _table(lists, "Recommended")))


def similar(
    model: ModelPath,
    item: Annotated[str, typer.Option(metavar="ID", help="The item to compare with.", show_default=False)],
    k: K = 10,
    json: Json = False,
) -> None:
    """List the items most like an item, by the angle between their vectors."""
    from alteraser.versions.version import load_version

    lists = load_version(model).recommender.similar_items(item, k)
    lists = lists.drop("item_id").rename({"similar_item_id": "item_id"})
    show(
        {"similar": lists.to_dicts()},
        as_json=json,
        human=lambda to: print_table(to, _table(lists, "Similar items")),
    )


def _excluded(version: Version, exclude: str, options: DataOptions) -> Interactions:
    """All that users have counts, also what was rated too low or was too rare to be trained on."""
    from alteraser.data.read_options import ReadOptions

    pairs = ReadOptions(user=version.read_options.user, item=version.read_options.item)
    return options.open(exclude, pairs)


def _table(lists: pl.DataFrame, title: str) -> Any:
    from alteraser.report.tables import Table

    rows = tuple(
        tuple(f"{v:.4f}" if isinstance(v, float) else str(v) for v in row) for row in lists.iter_rows()
    )
    return Table(title, tuple(lists.columns), rows)
