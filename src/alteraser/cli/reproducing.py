"""`alteraser reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from alteraser.cli.options import DataDir, Json, Seed, example
from alteraser.cli.output import note, show, status

EXAMPLE = example(
    "alteraser reproduce --dataset amazon-14core --runs 1 --out results",
    "alteraser reproduce --resume --out results",
)


def reproduce(
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder of results; it may hold some.")],
    dataset: Annotated[
        Literal["ml-1m", "amazon-14core", "kuairec-binary", "all"],
        typer.Option(help="Which data set of the paper."),
    ] = "all",
    scenario: Annotated[
        Literal["noise", "privacy", "all"],
        typer.Option(help="Forget injected false interactions, or half of the users' own."),
    ] = "noise",
    regime: Annotated[
        Literal["paper", "converged", "all"],
        typer.Option(help="Train as the paper does (AdamW, early stopping), or to the optimum (ALS)."),
    ] = "all",
    runs: Annotated[int, typer.Option(min=1, help="How many runs, each with a split of its own.")] = 5,
    methods: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only these methods; repeat.", show_default="all")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a run was interrupted.")] = False,
    seed: Seed = 0,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Run the paper's evaluation and set our figures beside the paper's.

    Each run is written to a file of its own as soon as it ends.
    """
    from alteraser.experiments.evaluation import Evaluation, evaluate
    from alteraser.experiments.run import SCENARIOS
    from alteraser.experiments.settings import REGIMES, paper_datasets
    from alteraser.experiments.tables import tables

    evaluation = Evaluation(
        datasets=paper_datasets() if dataset == "all" else (dataset,),
        scenarios=SCENARIOS if scenario == "all" else (scenario,),
        regimes=REGIMES if regime == "all" else (regime,),
        runs=runs,
        seed=seed,
        methods=tuple(methods) if methods else None,
    )
    with status("Preparing") as say:
        results = evaluate(evaluation, out, data_dir=data_dir, resume=resume, announce=say)
    note(f"Results are in {out}")

    def human(to: Console) -> None:
        for table in tables(results):
            to.print(table.terminal())

    result: dict[str, Any] = {"results": results}
    show(result, as_json=json, human=human)
