"""`alteraser evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from alteraser.cli.options import (
    DataOptions,
    Force,
    Json,
    ModelPath,
    Seed,
    example,
    random_generator,
    reads_data,
)
from alteraser.cli.output import counted, note, print_table, progress, show, write_page
from alteraser.cli.wall_clock import wall_seconds

if TYPE_CHECKING:
    from alteraser.data.interactions import Interactions
    from alteraser.measure.evaluation import Evaluation
    from alteraser.versions.version import Version

EXAMPLE = example(
    "alteraser evaluate model train.parquet --test test.parquet --html page.html",
    "alteraser evaluate model ratings.parquet --holdout 0.2",
)


@reads_data
def evaluate(
    model: ModelPath,
    options: DataOptions,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA", help="The data the model was trained on, a file or a name.", show_default=False
        ),
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Held-out interactions, not in DATA.", show_default=False),
    ] = None,
    holdout: Annotated[
        float | None,
        typer.Option(
            metavar="FRACTION",
            help="Hold out this share of each user's items, train a model like this on the rest, and judge that.",
            show_default=False,
        ),
    ] = None,
    max_users: Annotated[
        int, typer.Option(metavar="N", help="Judge at most so many users, drawn at random.")
    ] = 10_000,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write a page with plots, which needs no other file.",
            show_default=False,
        ),
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Measure how good a model's lists are, beside most-popular and item-kNN recommendations.

    Lists leave out what users have in DATA, and the baselines are made of it. The model itself is judged by --test
    only; with --holdout, which it has seen, one like it is. DATA is read as it was when the model was trained.
    """
    from alteraser.data.writing import make_ready
    from alteraser.errors import SettingError
    from alteraser.report.evaluation import evaluation_page
    from alteraser.versions.version import load_version

    if data is None:
        raise SettingError(
            "DATA is wanted after MODEL: the data the model was trained on. A model does not hold what users have, "
            "which lists leave out, nor what the baselines are made of."
        )
    if (test is None) == (holdout is None):
        raise SettingError("One of --test FILE and --holdout FRACTION is wanted; none or both came.")
    if holdout is not None and not 0 < holdout < 1:
        raise SettingError(f"--holdout is {holdout:g}; a share between 0 and 1 is wanted, as 0.2.")
    if html is not None:
        make_ready(html, force=force)
    version = load_version(model)
    rng = random_generator(seed, "evaluate")
    read_options = options.read_options(data, version.read_options)
    interactions = version.read(data, data_dir=options.data_dir, read_options=read_options)
    result: dict[str, Any] = {"model": str(model), "kind": version.kind}
    if test is not None:
        evaluation, left_out = _tested(version, interactions, test, options, max_users=max_users, rng=rng)
        about = f"{model}, on the interactions of {test}."
        result |= {"test": test, "unknown_test_interactions": left_out}
    else:
        evaluation, trained = _held_out(version, interactions, holdout or 0.0, max_users=max_users, rng=rng)
        about = f"A model trained like {model} on the other {1 - (holdout or 0.0):.0%} of each user's items."
        result |= {"holdout": holdout, "trained": trained}
    if html is not None:
        write_page(evaluation_page(evaluation, about), html, force=force)
    result |= evaluation.to_dict() | {"wall_seconds": wall_seconds()}
    show(result, as_json=json, human=lambda to: _human(to, evaluation, about, result["wall_seconds"]))


def _tested(
    version: Version, data: Interactions, test: str, options: DataOptions, **settings: Any
) -> tuple[Evaluation, int]:
    from alteraser.versions.evaluation import evaluate_version

    held_out = options.open_test(test, version.read_options)
    evaluation, n_unknown = evaluate_version(version, data, held_out, **settings)
    if n_unknown:
        note(f"{counted(n_unknown, 'test interaction')} with a user or an item not in the model: left out.")
    if evaluation.n_seen:
        note(
            f"{counted(evaluation.n_seen, 'test interaction')} found in the training data too: not counted, as lists "
            f"leave out what is in there."
        )
    return evaluation, n_unknown


def _held_out(
    version: Version, data: Interactions, fraction: float, **settings: Any
) -> tuple[Evaluation, dict[str, Any]]:
    from alteraser.versions.evaluation import evaluate_holdout

    unsaid = "als, as the model does not say how it was trained"
    trainer = unsaid if version.training is None else version.training["trainer"]
    note(
        f"The model has seen all of this data, so a new one is trained on {1 - fraction:.0%} of it: {version.kind}, "
        f"same dimension and objective, by {trainer}."
    )
    with progress("Training") as watch:
        evaluation, training = evaluate_holdout(version, data, fraction=fraction, progress=watch, **settings)
    if not training.converged:
        note("That training stopped at its limit, not converged; the model's own may have done the same.")
    return evaluation, {"passes": len(training.losses), "converged": training.converged}


def _human(to: Console, evaluation: Evaluation, about: str, seconds: float) -> None:
    from alteraser.report.evaluation import table, verdict

    to.print(about)
    print_table(to, table(evaluation))
    to.print(f"{verdict(evaluation)}\n{seconds:.1f} s in all")
