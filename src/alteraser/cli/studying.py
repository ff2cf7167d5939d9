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
        Literal["sizes", "solvers", "enmf", "acceleration", "conditions"],
        typer.Argument(
            metavar="STUDY",
            help="sizes: larger and larger requests; solvers: all solvers; enmf: ENMF with the step for h; "
            "acceleration: plain passes, Anderson, joint Newton; conditions: when forgetting equals retraining.",
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
    users: Annotated[
        int | None,
        typer.Option(min=100, help="Only so many random users of the data set.", show_default="all"),
    ] = None,
    seed: Seed = 0,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Study one question beside the paper's tables, such as how forgetting moves with the size of the request.

    The figures go to a file, STUDY-DATASET-REGIME.json, which a new study replaces.
    """
    from alteraser.data.datasets import load_dataset
    from alteraser.experiments.evaluation import made_with, sizes, warm_up
    from alteraser.experiments.run import Case
    from alteraser.experiments.settings import chosen_settings
    from alteraser.experiments.store import Store
    from alteraser.experiments.studies import STUDIES, slice_of
    from alteraser.experiments.tables import study_table

    store = Store(out)
    store.create()
    data, settings = load_dataset(dataset, data_dir=data_dir), chosen_settings(dataset, regime)
    whole = sizes(data)
    case = Case(dataset, "noise", regime, 0, seed)
    if users is not None:
        data = slice_of(data, users, case.rng("slice"))
    with status("Preparing") as say:
        warm_up((regime,))
        records = STUDIES[which](case, data, settings, say)
    result: dict[str, Any] = {
        "study": which,
        "data": whole,
        "users": data.n_users,
        "settings": settings.to_dict(),
        "made_with": made_with(),
    }
    store.write(f"{which}-{dataset}-{regime}", result | {"records": records})

    def human(to: Console) -> None:
        print_table(to, study_table(which, records))

    show({"study": which, "records": records}, as_json=json, human=human)
