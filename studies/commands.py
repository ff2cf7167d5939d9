"""The commands of `python -m studies`: they parse, call and answer. Heavy imports wait until a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from alteraser.cli.options import DataDir, Json, Seed, example
from alteraser.cli.output import note, print_table, show, status
from alteraser.cli.running import PLAIN, run

if TYPE_CHECKING:
    from studies.evaluation import Evaluation

RESULTS, PAGE = Path("docs/results"), Path("docs/results.md")
DEFAULTS = RESULTS / "defaults"

app = typer.Typer(
    help="Run the paper's evaluation and ours on real data, and make the page of results.",
    epilog=example("python -m studies reproduce --help"),
    **PLAIN,
)

Dataset = Annotated[
    Literal["ml-1m", "amazon-14core", "kuairec-binary"], typer.Option(help="Which data set of the paper.")
]
Runs = Annotated[int, typer.Option(min=1, help="How many runs, each with a split of its own.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on where a run was interrupted.")]
Regime = Annotated[
    Literal["paper", "converged"], typer.Option(help="Train with AdamW as the paper does, or by ALS.")
]


@app.command(
    epilog=example(
        "python -m studies reproduce --dataset amazon-14core --runs 1 --out results",
        "python -m studies reproduce --resume --out results",
    )
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
    runs: Runs = 5,
    methods: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only these methods; repeat.", show_default="all")
    ] = None,
    resume: Resume = False,
    seed: Seed = 0,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Run the paper's evaluation and set our figures beside the paper's.

    Each run is written as soon as it ends, to the file of its data set, scenario and regime.
    """
    from studies.evaluation import Evaluation
    from studies.run import SCENARIOS
    from studies.settings import REGIMES, paper_datasets

    evaluation = Evaluation(
        datasets=paper_datasets() if dataset == "all" else (dataset,),
        scenarios=SCENARIOS if scenario == "all" else (scenario,),
        regimes=REGIMES if regime == "all" else (regime,),
        runs=runs,
        seed=seed,
        methods=tuple(methods) if methods else None,
    )
    _run(evaluation, out, data_dir=data_dir, resume=resume, as_json=json)


@app.command(epilog=example("python -m studies headline --resume --out results"))
def headline(
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder of results.")],
    runs: Runs = 5,
    resume: Resume = False,
    seed: Seed = 0,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Measure what the page of results opens with: a few methods, all data sets, as the paper trains.

    They are kept apart, in the folder `headline`, so that all its figures are of one measurement.
    """
    from studies.evaluation import Evaluation
    from studies.headline import FOLDER
    from studies.methods import HEADLINE
    from studies.settings import paper_datasets

    evaluation = Evaluation(
        tuple(sorted(paper_datasets())), ("noise",), ("paper",), runs=runs, seed=seed, methods=HEADLINE
    )
    _run(evaluation, out / FOLDER, data_dir=data_dir, resume=resume, as_json=json)


def _run(evaluation: Evaluation, out: Path, *, data_dir: Path | None, resume: bool, as_json: bool) -> None:
    from studies.evaluation import evaluate
    from studies.tables import tables

    with status("Preparing") as say:
        results = evaluate(evaluation, out, data_dir=data_dir, resume=resume, announce=say)
    note(f"Results are in {out}")

    def human(to: Console) -> None:
        for table in tables(results):
            print_table(to, table)

    show({"results": results}, as_json=as_json, human=human)


@app.command(epilog=example("python -m studies study sizes --dataset amazon-14core --out results"))
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
    dataset: Dataset,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder of results.")],
    regime: Regime = "converged",
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
    from studies.evaluation import examine
    from studies.run import Case
    from studies.tables import study_table

    case = Case(dataset, "noise", regime, 0, seed)
    with status("Preparing") as say:
        records = examine(which, case, out, n_users=users, data_dir=data_dir, announce=say)
    show(
        {"study": which, "records": records},
        as_json=json,
        human=lambda to: print_table(to, study_table(which, records)),
    )


@app.command(epilog=example("python -m studies tune --dataset amazon-14core --regime paper --out results"))
def tune(
    dataset: Dataset,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder of results; trials in it are not repeated.")
    ],
    regime: Regime = "paper",
    seed: Seed = 0,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Search the settings that `reproduce` trains with: NDCG@10 on a tenth of the training data.

    All trials are kept in a file, tuning-DATASET-REGIME.json.
    """
    from alteraser.data.datasets import load_dataset
    from studies.tables import tuning_table
    from studies.tune import tune as search

    data = load_dataset(dataset, data_dir=data_dir)
    with status("Preparing") as say:
        result: dict[str, Any] = search(dataset, regime, data, out, seed=seed, announce=say)
    show(result, as_json=json, human=lambda to: print_table(to, tuning_table(result)))


@app.command(
    epilog=example(
        "python -m studies defaults --case ml-100k --seeds 1",
        "python -m studies defaults --what grid,default,rule,popular",
    )
)
def defaults(
    case: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A data set, or a part of one; repeat.", show_default="all"),
    ] = None,
    what: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="Of grid, default, rule, popular, implicit, implicit-grid, tune, separated by commas. Defaults need "
            "the grids of the other data sets.",
        ),
    ] = "grid,default,rule,popular,implicit",
    seeds: Annotated[int, typer.Option(min=1, help="How many splits.")] = 3,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder of results; what is there is not measured again.")
    ] = DEFAULTS,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Measure how good the default settings are, beside the best of a grid and beside implicit's.

    On nine data sets, parts of them and generated ones, with a rule that has seen none of the same origin.
    """
    from evidence.store import Store
    from studies.defaults import measure, named_measurements
    from studies.defaults_data import data_cases, data_folder, named_case

    cases = [named_case(name) for name in case] if case else list(data_cases())
    wanted, store, folder = named_measurements(what), Store(out), data_folder(data_dir)
    records: dict[str, Any] = {}
    with status("Preparing") as say:
        for each in cases:
            records[each.name] = measure(
                each, store, seeds=range(seeds), what=wanted, folder=folder, announce=say
            )
    show({"cases": records}, as_json=json, human=lambda to: to.print(f"Results are in {out}"))


@app.command(epilog=example("python -m studies endings --case ml-100k"))
def endings(
    case: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A data set; repeat.", show_default="all nine")
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder of results; what is there is not measured again.")
    ] = RESULTS / "endings",
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Measure what training to the optimum costs, and what it buys a model that has to forget."""
    from evidence.store import Store
    from studies.defaults_data import ORIGINALS, data_folder
    from studies.endings import measure

    with status("Preparing") as say:
        records = measure(case or list(ORIGINALS), Store(out), folder=data_folder(data_dir), announce=say)
    show({"records": records}, as_json=json, human=lambda to: to.print(f"Results are in {out}"))


@app.command(epilog=example("python -m studies page --results results --out results.md"))
def page(
    results: Annotated[Path, typer.Option(metavar="DIR", help="The folder of results.")] = RESULTS,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page; it is replaced.")] = PAGE,
    json: Json = False,
) -> None:
    """Make the page of results, those beside it and their plots; nothing is measured."""
    from studies.page import write_page

    made_of = write_page(results, out)
    show(
        {"page": str(out), "results": made_of},
        as_json=json,
        human=lambda to: to.print(f"{out}, made of {made_of} results"),
    )


def main(arguments: list[str] | None = None) -> None:
    """Run `python -m studies`; it ends as the command `alteraser` does."""
    run(app, arguments, prog_name="python -m studies")
