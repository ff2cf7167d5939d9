"""`alteraser compact`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from alteraser.cli.options import Force, Json, ModelPath, example
from alteraser.cli.output import counted, show

EXAMPLE = example("alteraser compact model2 --out model3")


def compact(
    model: ModelPath,
    out: Annotated[
        Path, typer.Option(metavar="MODEL2", help="The folder of the new model.", show_default=False)
    ],
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a model without the empty rows that wholly forgotten users and items left.

    An empty row among ids in order tells whose it was. Nothing else changes: the model scores and goes on forgetting
    as before, with the same remaining data. What counts on row numbers of the old model has to be made anew.
    """
    from alteraser.versions.compaction import compact as compacted
    from alteraser.versions.version import load_version, make_ready

    make_ready(out, force=force)
    version = load_version(model)
    small = compacted(version).save(out, force=force)
    result = {
        "out": str(out),
        "users": small.model.n_users,
        "items": small.model.n_items,
        "removed": {
            "users": version.user_vocabulary.n_forgotten,
            "items": version.item_vocabulary.n_forgotten,
        },
    }
    show(result, as_json=json, human=lambda to: _human(to, result))


def _human(to: Console, result: dict[str, Any]) -> None:
    removed = result["removed"]
    if not any(removed.values()):
        to.print(
            f"The model has no rows of forgotten users or items; it was written unchanged to {result['out']}"
        )
        return
    to.print(
        f"Rows of forgotten users removed: {removed['users']}, of forgotten items: {removed['items']}\n"
        f"Model with {counted(result['users'], 'user')} and {counted(result['items'], 'item')} written to "
        f"{result['out']}"
    )
