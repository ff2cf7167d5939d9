"""`alteraser recommend` and `alteraser similar`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alteraser.cli.options import DataOptions, Force, Json, ModelPath, example, reads_data
from alteraser.cli.output import print_table, show

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from alteraser.data.csr import CSR
    from alteraser.data.interactions import Vocabulary
    from alteraser.models.checkpoint import StoredModel

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
    import polars as pl

    from alteraser.data.files import read_ids
    from alteraser.data.writing import make_table_ready, write_frame
    from alteraser.errors import SettingError
    from alteraser.models.checkpoint import load_model

    if (user is None) == (users is None):
        raise SettingError("Either --user ID or --users FILE is wanted, not both.")
    _check_k(k)
    if out is not None:
        make_table_ready(out, force=force)
    stored = load_model(model)
    asked = pl.Series([user]) if users is None else read_ids(users, "user_id")
    seen = None if exclude is None else _seen(stored, exclude, options)
    rows = _known_rows(stored.user_vocabulary, asked, "user", users)
    lists = _lists(stored, rows, k, seen)
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
    import numpy as np
    import polars as pl
    import torch

    from alteraser.models.base import Similar, lacking
    from alteraser.models.checkpoint import load_model

    _check_k(k)
    stored = load_model(model)
    row = _known_rows(stored.item_vocabulary, pl.Series([item]), "item")[0]
    if not isinstance(stored.model, Similar):
        raise lacking(stored.model, Similar, wanted_by="similar", instead="Take a model of another kind.")
    likeness = stored.model.item_similarities(row)
    likeness[torch.from_numpy(stored.item_vocabulary.tombstones)] = -torch.inf
    likeness[row] = -torch.inf
    values, rows = torch.sort(likeness, descending=True, stable=True)
    kept = np.flatnonzero(torch.isfinite(values[:k]).numpy())
    lists = pl.DataFrame(
        {
            "rank": kept + 1,
            "item_id": stored.item_vocabulary.ids.gather(rows[:k].numpy()[kept]),
            "similarity": values[:k].double().numpy()[kept],
        }
    )
    show(
        {"similar": lists.to_dicts()},
        as_json=json,
        human=lambda to: print_table(to, _table(lists, "Similar items")),
    )


def _seen(stored: StoredModel, exclude: str, options: DataOptions) -> CSR:
    from alteraser.data.interactions import Side
    from alteraser.data.read_options import ReadOptions
    from alteraser.errors import MismatchError

    # All that a user has counts, also what was rated too low or was too rare to be trained on.
    pairs = ReadOptions(user=stored.read_options.user, item=stored.read_options.item)
    data = options.open(exclude, pairs)
    known, n_unknown = data.known_to(stored.user_vocabulary, stored.item_vocabulary)
    if len(known) == 0:
        raise MismatchError(
            f"None of the {n_unknown} interactions to exclude has a user and an item of the model. Give the data "
            f"the model was trained on, or leave --exclude out."
        )
    return known.by(Side.USERS)


def _lists(stored: StoredModel, users: NDArray[np.int64], k: int, seen: CSR | None) -> pl.DataFrame:
    """Columns user_id, rank, item_id, score: the lists one below the other."""
    import numpy as np
    import polars as pl

    from alteraser.measure.ranking import top_k

    k = min(k, stored.model.n_items)
    lists = top_k(stored.model, users, k, exclude=seen, unavailable=stored.item_vocabulary.tombstones)
    place, rank = np.nonzero(lists >= 0)
    items = lists[place, rank]
    return pl.DataFrame(
        {
            "user_id": stored.user_vocabulary.ids.gather(users[place]),
            "rank": rank + 1,
            "item_id": stored.item_vocabulary.ids.gather(items),
            "score": stored.model.pair_scores(users[place], items).double().numpy(),
        }
    )


def _known_rows(
    vocabulary: Vocabulary, ids: pl.Series, what: str, source: Path | None = None
) -> NDArray[np.int64]:
    """The rows of the ids; one that is not known is named by its place in the file, never by itself."""
    import numpy as np

    from alteraser.errors import MismatchError

    rows = vocabulary.rows(ids)
    if (unknown := np.flatnonzero(rows < 0)).size:
        problem = f"The {what} is not in the model."
        if source is not None:
            problem = (
                f"{unknown.size} of {len(ids)} {what}s in {source} are not in the model (the first in data row "
                f"{unknown[0] + 1})."
            )
        raise MismatchError(
            f"{problem} Known are those that were in the training data and were not forgotten."
        )
    return rows


def _check_k(k: int) -> None:
    from alteraser.errors import SettingError

    if k < 1:
        raise SettingError(f"k is {k}; a whole number from 1 up is wanted.")


def _table(lists: pl.DataFrame, title: str) -> Any:
    from alteraser.report.tables import Table

    rows = tuple(
        tuple(f"{v:.4f}" if isinstance(v, float) else str(v) for v in row) for row in lists.iter_rows()
    )
    return Table(title, tuple(lists.columns), rows)
