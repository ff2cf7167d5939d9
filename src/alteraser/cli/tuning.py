"""`alteraser tune`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from alteraser.cli.interruption import Interrupted
from alteraser.cli.options import Data, DataOptions, Force, Json, Seed, example, reads_data
from alteraser.cli.output import counted, note, print_table, show, write_page
from alteraser.cli.training import TrainerName, check_trainer_options, known_kind
from alteraser.cli.wall_clock import wall_seconds
from alteraser.models.defaults import DIM, ITEM_POPULARITY, L2_SCALING, USER_ACTIVITY
from alteraser.models.registry import kinds

if TYPE_CHECKING:
    from alteraser.tuning.search import Tuning
    from alteraser.tuning.trials import Trial

EXAMPLE = example(
    "alteraser tune ratings.parquet --out settings.toml --html tuning.html",
    "alteraser tune ratings.parquet --out settings.toml --dim 16:128",
)


@reads_data
def tune(
    data: Data,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="The settings file to write, for train --settings.", show_default=False
        ),
    ],
    options: DataOptions,
    trials: Annotated[int, typer.Option(metavar="N", help="How many settings to try.")] = 20,
    budget_seconds: Annotated[
        float, typer.Option(metavar="S", help="Begin no trial after so many seconds.", show_default="none")
    ] = math.inf,
    jobs: Annotated[
        int,
        typer.Option(metavar="N", help="Trials at a time, each in a process with its share of the threads."),
    ] = 1,
    study: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keeps the trials; if it is there, the search goes on from it.",
            show_default="OUT with .study.json",
        ),
    ] = None,
    w0: Annotated[
        str | None,
        typer.Option(
            metavar="LOW:HIGH",
            help="Where w0 is looked for, or one value to keep.",
            show_default="around what the data suggest",
        ),
    ] = None,
    l2: Annotated[
        str | None,
        typer.Option(
            metavar="LOW:HIGH", help="The same for l2.", show_default="around what the data suggest"
        ),
    ] = None,
    l2_scaling: Annotated[
        str, typer.Option(metavar="LOW:HIGH", help="The same for l2-scaling, as 0:1.")
    ] = f"{L2_SCALING:g}",
    user_activity: Annotated[
        str, typer.Option(metavar="LOW:HIGH", help="The same for user-activity, as 0:1.")
    ] = f"{USER_ACTIVITY:g}",
    item_popularity: Annotated[
        str, typer.Option(metavar="LOW:HIGH", help="The same for item-popularity, as 0:1.")
    ] = f"{ITEM_POPULARITY:g}",
    dim: Annotated[str, typer.Option(metavar="LOW:HIGH", help="The same for dim, as 16:128.")] = str(DIM),
    model: Annotated[
        str, typer.Option(help="As for train.", metavar=f"[{'|'.join(kinds())}]", callback=known_kind)
    ] = "enmf",
    trainer: Annotated[TrainerName, typer.Option(help="As for train.")] = "als",
    max_passes: Annotated[int | None, typer.Option(help="As for train.", show_default=False)] = None,
    tolerance: Annotated[float | None, typer.Option(help="As for train.", show_default=False)] = None,
    learning_rate: Annotated[float | None, typer.Option(help="As for train.", show_default=False)] = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write a page with plots of the trials.", show_default=False),
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Look for the settings whose models recommend best, and write them to a file.

    A fifth of the items of up to 10,000 users is held out; each trial trains on the rest and is judged by NDCG@10. An
    interrupted search goes on when the same command is run again. With --jobs above 1 the order in which trials end
    matters, too, not the seed alone.
    """
    from alteraser.data.writing import make_ready
    from alteraser.report.tuning import tuning_page
    from alteraser.train.named import named_trainer
    from alteraser.tuning.search import tune as search
    from alteraser.tuning.settings_file import write_settings
    from alteraser.tuning.space import Range, SearchSpace

    check_trainer_options(trainer, model, learning_rate=learning_rate, solve_h=None)
    given = {
        "w0": w0,
        "l2": l2,
        "l2_scaling": l2_scaling,
        "user_activity": user_activity,
        "item_popularity": item_popularity,
        "dim": dim,
    }
    space = SearchSpace(**{name: Range.parse(text, name) for name, text in given.items() if text is not None})
    chosen = named_trainer(trainer, max_passes=max_passes, tolerance=tolerance, learning_rate=learning_rate)
    for file in (out, html):
        if file is not None:
            make_ready(file, force=force)
    kept = study or out.with_name(out.name + ".study.json")
    interactions = options.open(data)
    with _kept_when_interrupted(kept):
        tuning = search(
            interactions,
            model=model,
            trainer=chosen,
            space=space,
            trials=trials,
            jobs=jobs,
            budget_seconds=budget_seconds,
            seed=seed,
            study=kept,
            on_trial=_announcer(trials),
        )
    write_settings(tuning.settings, out, comment=_comment(tuning, data), force=force)
    if html is not None:
        write_page(tuning_page(tuning, data), html, force=force)
    result = {"out": str(out), "study": str(kept)} | tuning.to_dict() | {"wall_seconds": wall_seconds()}
    show(result, as_json=json, human=lambda to: _human(to, tuning, out, result["wall_seconds"]))


@contextmanager
def _kept_when_interrupted(study: Path) -> Iterator[None]:
    """Say of an interrupted search what is kept, and how to go on."""
    try:
        yield
    except Interrupted:
        if study.exists():
            note(
                f"The trials made so far are kept in {study}: run the same command again to go on from there."
            )
        raise


def _announcer(trials: int) -> Callable[[Trial, int, bool], None]:
    from alteraser.report.tuning import settings_text

    def announce(trial: Trial, number: int, best: bool) -> None:
        came = f"failed ({trial.problem})" if trial.ndcg is None else f"NDCG@10 {trial.ndcg:.4f}"
        so_far = ", the best so far" if best else ""
        note(f"Trial {number} of {trials}: {settings_text(trial)}: {came}{so_far}; {trial.seconds:.1f} s")

    return announce


def _comment(tuning: Tuning, data: str) -> str:
    return (
        f"Found by `alteraser tune {data}`: the best of {counted(len(tuning.trials), 'trial')}, NDCG@10 "
        f"{tuning.best.ndcg:.4f} over {counted(tuning.n_users, 'user')}.\n"
        f"For `alteraser train --settings`; options given there win."
    )


def _human(to: Console, tuning: Tuning, out: Path, seconds: float) -> None:
    from alteraser.report.tuning import settings_text, table

    print_table(to, table(tuning))
    if tuning.n_resumed:
        were = "was" if tuning.n_resumed == 1 else "were"
        to.print(f"{tuning.n_resumed} of the trials {were} in the study already.")
    for name in tuning.space.at_edge(tuning.best.settings):
        option = name.replace("_", "-")
        to.print(
            f"The best {option} lies at the edge of what was searched: a wider --{option} may hold better ones."
        )
    if tuning.ends_early:
        to.print(
            f"With the best settings lists get worse after {counted(tuning.best.passes, 'pass')}, so that the settings "
            f"end training there (max_passes)."
        )
    to.print(
        f"Best: {settings_text(tuning.best)}, NDCG@10 {tuning.best.ndcg:.4f} over {counted(tuning.n_users, 'user')}, "
        f"on items that were held out; {seconds:.1f} s in all.\n"
        f"Settings written to {out}; next: alteraser train DATA --settings {out} --out MODEL"
    )
