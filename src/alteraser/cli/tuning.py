"""`alteraser tune`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from alteraser.cli.options import DataDir, Json, Seed, example
from alteraser.cli.output import print_table, show, status

EXAMPLE = example("alteraser tune --dataset amazon-14core --regime paper --out results")


def tune(
    dataset: Annotated[
        Literal["ml-1m", "amazon-14core", "kuairec-binary"], typer.Option(help="Which data set of the paper.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder of results; trials in it are not repeated.")
    ],
    regime: Annotated[
        Literal["paper", "converged"], typer.Option(help="Train with AdamW as the paper does, or by ALS.")
    ] = "paper",
    seed: Seed = 0,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Search the settings that `reproduce` trains with: NDCG@10 on a tenth of the training data.

    All trials are kept in a file, tuning-DATASET-REGIME.json.
    """
    from alteraser.data.datasets import load_dataset
    from alteraser.experiments.tables import tuning_table
    from alteraser.experiments.tune import tune as search

    data = load_dataset(dataset, data_dir=data_dir)
    with status("Preparing") as say:
        result: dict[str, Any] = search(dataset, regime, data, out, seed=seed, announce=say)

    def human(to: Console) -> None:
        print_table(to, tuning_table(result))

    show(result, as_json=json, human=human)
