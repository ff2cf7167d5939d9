"""`alteraser recommend` and `alteraser similar`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alteraser.cli.options import DataOptions, Force, Json, ModelPath, example, reads_data
from alteraser.cli.output import counted, note, print_table, show

if TYPE_CHECKING:
    import polars as pl

    from alteraser.data.interactions import Interactions
    from alteraser.versions.recommending import RecommendingVersion

RECOMMEND_EXAMPLE = example(
    "alteraser recommend model ratings.parquet --user 42 --user 43 -k 10",
    "alteraser recommend model ratings.parquet --users users.csv --out lists.csv",
)
SIMILAR_EXAMPLE = example("alteraser similar model --item 'Baking: Rye sourdough' -k 10")
K = Annotated[int, typer.Option("-k", "--k", metavar="K", help="How many items at most.")]


@reads_data
def recommend(
    model: ModelPath,
    options: DataOptions,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="A file, or the name of a data set: what users have in it is left out.",
            show_default=False,
        ),
    ] = None,
    user: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="A user to recommend to. Repeat for more.", show_default=False),
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
        typer.Option(metavar="DATA", help="The same as DATA behind the model.", show_default=False),
    ] = None,
    include_seen: Annotated[
        bool, typer.Option("--include-seen", help="Also list what users have already.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where the lists go (.csv or .parquet).", show_default=False),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """List the items a model recommends to users.

    A model does not know what its users have. Give the data to have that left out of their lists.
    """
    from alteraser.data.writing import make_table_ready, write_frame
    from alteraser.errors import SettingError
    from alteraser.versions.recommending import load_recommender

    if data is not None and exclude is not None:
        raise SettingError("DATA and --exclude mean the same, and both came; give one of them.")
    seen = data or exclude
    if out is not None:
        make_table_ready(out, force=force)
    asked = _asked(user or [], users)
    version = load_recommender(model)
    if seen is None and not include_seen:
        note(
            "Lists may hold what users already have: no data came to look it up in. Give it behind the model "
            "(alteraser recommend MODEL DATA), or say --include-seen."
        )
    lists = version.recommender.recommend(
        asked,
        k,
        exclude=None if seen is None or include_seen else _seen(version, seen, options),
        source=None if users is None else str(users),
    )
    if out is not None:
        write_frame(lists, out, force=force)
        result: dict[str, Any] = {"out": str(out), "users": len(asked), "rows": lists.height}
        show(
            result,
            as_json=json,
            human=lambda to: to.print(f"Lists of {counted(len(asked), 'user')} written to {out}"),
        )
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
    from alteraser.versions.recommending import load_recommender

    lists = load_recommender(model).recommender.similar_items(item, k)
    lists = lists.drop("item_id").rename({"similar_item_id": "item_id"})
    show(
        {"similar": lists.to_dicts()},
        as_json=json,
        human=lambda to: print_table(to, _table(lists, "Similar items")),
    )


def _asked(typed: list[str], file: Path | None) -> pl.Series:
    """The users that were named, each once, in their order."""
    import polars as pl

    from alteraser.data.columns import id_texts
    from alteraser.data.files import read_ids
    from alteraser.errors import SettingError

    if not typed and file is None:
        raise SettingError("Nobody to recommend to came. Give --user ID, once or more, or --users FILE.")
    ids = id_texts(typed)
    if file is not None:
        ids = pl.concat([ids, read_ids(file, "user_id").cast(pl.String)])
    return ids.unique(maintain_order=True)


def _seen(version: RecommendingVersion, data: str, options: DataOptions) -> Interactions:
    """All that users have counts, also what was rated too low or was too rare to be trained on."""
    return options.read(data, options.read_options(data, version.read_options).pairs_alone())


def _table(lists: pl.DataFrame, title: str) -> Any:
    from alteraser.report.tables import Table

    rows = tuple(
        tuple(f"{v:.4f}" if isinstance(v, float) else str(v) for v in row) for row in lists.iter_rows()
    )
    return Table(title, tuple(lists.columns), rows)
