"""`alteraser study`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from alteraser.cli.options import DataDir, Json, Seed, example
from alteraser.cli.output import print_table, show, status

EXAMPLE = example("alteraser study sizes --dataset amazon-14core --out results")


def study(
    which: Annotated[
        Literal["sizes", "solvers"],
        typer.Argument(
            metavar="STUDY",
            help="sizes: larger and larger requests; solvers: all solvers.",
            show_default=False,
        ),
    ],
    dataset: Annotated[
        Literal["ml-1m", "amazon-14core", "kuairec-binary"], typer.Option(help="Which data set of the paper.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder of results.")],
    regime: Annotated[
        Literal["paper", "converged"], typer.Option(help="Train with AdamW as the paper does, or by ALS.")
    ] = "converged",
    seed: Seed = 0,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Study how cost and quality of forgetting move with the size of the request, or with the solver.

    The figures go to a file, STUDY-DATASET-REGIME.json, which a new study replaces.
    """
    from alteraser.data.datasets import load_dataset
    from alteraser.experiments.evaluation import made_with, warm_up
    from alteraser.experiments.run import Case
    from alteraser.experiments.settings import chosen_settings
    from alteraser.experiments.store import Store
    from alteraser.experiments.studies import STUDIES
    from alteraser.experiments.tables import study_table

    store = Store(out)
    store.create()
    data, settings = load_dataset(dataset, data_dir=data_dir), chosen_settings(dataset, regime)
    with status("Preparing") as say:
        warm_up((regime,))
        records = STUDIES[which](Case(dataset, "noise", regime, 0, seed), data, settings, announce=say)
    result: dict[str, Any] = {"study": which, "settings": settings.to_dict(), "made_with": made_with()}
    store.write(f"{which}-{dataset}-{regime}", result | {"records": records})

    def human(to: Console) -> None:
        print_table(to, study_table(which, records))

    show({"study": which, "records": records}, as_json=json, human=human)
