"""`alteraser train`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from alteraser.cli.heavy_imports import heavy_imports
from alteraser.cli.options import (
    Data,
    DataOptions,
    Force,
    Json,
    Seed,
    example,
    random_generator,
    reads_data,
)
from alteraser.cli.output import counted, note, progress, show
from alteraser.cli.wall_clock import wall_seconds
from alteraser.models.defaults import DIM, ITEM_POPULARITY, L2_SCALING, USER_ACTIVITY
from alteraser.models.registry import kinds, untrained

if TYPE_CHECKING:
    from alteraser.data.interactions import Interactions
    from alteraser.train.base import Training
    from alteraser.tuning.choose import Choice

EXAMPLE = example("alteraser train ratings.parquet --out model")
TrainerName = Literal["als", "newton", "adamw"]


def known_kind(kind: str) -> str:
    if kind not in kinds():
        raise typer.BadParameter(f"{kind!r} is not one of {', '.join(map(repr, kinds()))}.")
    return kind


def _settings_as_defaults(context: typer.Context, path: Path | None) -> Path | None:
    """Have the options that are not given default to what the file says."""
    from alteraser.tuning.settings_file import read_settings

    if path is not None and not context.resilient_parsing:
        context.default_map = read_settings(path)
    return path


def _without_settings_of_another(context: typer.Context, trainer: TrainerName) -> TrainerName:
    """Leave out what a settings file says of how another trainer trains; given options are read before defaults."""
    from alteraser.tuning.settings_file import OF_TRAINER

    file = context.default_map or {}
    if file.get("trainer", trainer) != trainer:
        context.default_map = {name: value for name, value in file.items() if name not in OF_TRAINER}
    return trainer


@reads_data
def train(
    data: Data,
    out: Annotated[Path, typer.Option(metavar="MODEL", help="The folder to write.", show_default=False)],
    options: DataOptions,
    settings_file: Annotated[
        Path | None,
        typer.Option(
            "--settings",
            metavar="FILE",
            help="Settings that `alteraser tune` wrote; options that are given win.",
            callback=_settings_as_defaults,
            is_eager=True,
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            help="mf, or enmf, which also weighs each dimension.",
            metavar=f"[{'|'.join(kinds())}]",
            callback=known_kind,
        ),
    ] = "enmf",
    trainer: Annotated[
        TrainerName,
        typer.Option(
            help="als solves row after row; newton goes on from there to the optimum, where retrainings agree best; "
            "adamw follows gradients.",
            callback=_without_settings_of_another,
        ),
    ] = "als",
    dim: Annotated[int, typer.Option(help="Length of a user's or item's vector.")] = DIM,
    precision: Annotated[
        Literal["single", "double"],
        typer.Option(help="The model's numbers, which forgetting keeps: single has 32 bits, double 64."),
    ] = "single",
    w0: Annotated[
        float | None,
        typer.Option(
            help="Weight of a missing entry; a positive weighs 1.", show_default="chosen from the data"
        ),
    ] = None,
    l2: Annotated[
        float | None,
        typer.Option(help="Strength of the penalty on vectors.", show_default="chosen from the data"),
    ] = None,
    l2_scaling: Annotated[
        float, typer.Option(help="How the penalty grows with a row's count, as an exponent; 0 is plain L2.")
    ] = L2_SCALING,
    user_activity: Annotated[
        float, typer.Option(help="Exponent by which missing entries of active users weigh more.")
    ] = USER_ACTIVITY,
    item_popularity: Annotated[
        float, typer.Option(help="Exponent by which missing entries of popular items weigh more.")
    ] = ITEM_POPULARITY,
    max_passes: Annotated[
        int | None,
        typer.Option(
            help="At most so many passes (als, newton) or epochs (adamw).",
            show_default="als 200, newton 1000, adamw 500",
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="Stop when the loss falls by less than this share.",
            show_default="als 1e-5, newton 1e-9, adamw 1e-4",
        ),
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="adamw: size of a step.", show_default="0.01")
    ] = None,
    solve_h: Annotated[
        bool, typer.Option("--solve-h", help="als and enmf: also solve h, the dimensions' weights.")
    ] = False,
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Train a model on the interactions and write it to a folder.

    w0 and l2 are chosen from the data unless they are given: a few settings are tried for a few passes and judged on a
    slice that is held out, which takes half as long as the training to three times as long. The model is then trained
    on all of the data.
    """
    del settings_file  # it has set the defaults of the options
    with heavy_imports():
        import torch

        from alteraser.kernels.warm_up import warm_up
        from alteraser.train.fit import fit
        from alteraser.train.named import named_trainer
        from alteraser.tuning.choose import choose_objective
        from alteraser.tuning.concerns import concerns
        from alteraser.versions.version import Version, make_ready

    check_trainer_options(trainer, model, learning_rate=learning_rate, solve_h=solve_h or None)
    make_ready(out, force=force)
    rng = random_generator(seed, "train")
    settings = {"max_passes": max_passes, "tolerance": tolerance, "learning_rate": learning_rate}
    chosen = named_trainer(trainer, **settings, solve_h=solve_h or None)
    interactions = options.open(data)
    dtype = {"single": torch.float32, "double": torch.float64}[precision]
    # The candidates of settings are trained in single precision, whatever the model's is.
    warm_up("float32", str(dtype).removeprefix("torch."))
    began = time.perf_counter()
    with progress("Choosing w0 and l2", counts="candidate", figure="NDCG@10") as watch:
        choice = choose_objective(
            interactions,
            dim=dim,
            rng=random_generator(seed, "choose"),
            w0=w0,
            l2=l2,
            progress=watch,
            l2_scaling=l2_scaling,
            user_activity=user_activity,
            item_popularity=item_popularity,
        )
    seconds_choosing = time.perf_counter() - began
    start = untrained(model, interactions, dim=dim, objective=choice.objective, rng=rng, dtype=dtype)
    began = time.perf_counter()
    with progress("Training") as watch:
        training = fit(start, interactions, trainer=chosen, rng=rng, progress=watch)
    seconds = time.perf_counter() - began
    read_options = options.read_options(data)
    version = Version.of(training.model, interactions, read_options=read_options, trainer=chosen)
    version.save(out, force=force)
    result = {"out": str(out), "model": model} | _result(training, interactions) | {"seconds": seconds}
    result |= _chosen(choice, seconds_choosing) | {"warnings": concerns(training, interactions, choice)}
    for warning in result["warnings"]:
        note(f"Warning: {warning}")
    result["wall_seconds"] = wall_seconds()
    show(result, as_json=json, human=lambda to: _human(to, result))


def check_trainer_options(
    trainer: TrainerName, model: str, *, learning_rate: float | None, solve_h: bool | None
) -> None:
    """Raises if an option is given that this trainer does not have, or not for this model."""
    from alteraser.errors import SettingError

    if learning_rate is not None and trainer != "adamw":
        raise SettingError(f"--learning-rate is a setting of adamw; the trainer is {trainer}.")
    if solve_h is not None and (trainer, model) != ("als", "enmf"):
        raise SettingError(f"--solve-h is a setting of als for enmf; {trainer} for {model} came.")


def _result(training: Training[Any], data: Interactions) -> dict[str, Any]:
    return {
        "users": data.n_users,
        "items": data.n_items,
        "interactions": len(data),
        "passes": len(training.losses),
        "converged": training.converged,
        "loss": training.model.loss(data),
    }


def _chosen(choice: Choice, seconds: float) -> dict[str, Any]:
    best, tried = choice.best, len(choice.candidates)
    return {
        "objective": choice.objective.to_dict(),
        "validation": None
        if best is None
        else {"ndcg@10": best.ndcg, "most_popular": choice.most_popular, "candidates": tried},
        "seconds_choosing": seconds,
    }


def _human(to: Console, result: dict[str, Any]) -> None:
    objective, validation = result["objective"], result["validation"]
    to.print(
        f"w0 {objective['w0']:g}, l2 {objective['l2']:g}, c {objective['c_users']:g} and {objective['c_items']:g}"
    )
    if validation:
        tried = "given" if validation["candidates"] == 1 else f"best of {validation['candidates']} tried"
        to.print(
            f"({tried}; NDCG@10 of a few passes on a slice held out {validation['ndcg@10']:.4f}, most popular "
            f"{validation['most_popular']:.4f}; {result['seconds_choosing']:.2f} s)"
        )
    end = "converged" if result["converged"] else "the limit (--max-passes, or max_passes of the settings)"
    to.print(
        f"{counted(result['passes'], 'pass')}, {end}; loss {result['loss']:.1f}\n"
        f"{result['model']} with {counted(result['users'], 'user')} and {counted(result['items'], 'item')} written to "
        f"{result['out']}\n"
        f"{result['seconds']:.2f} s of training, {result['wall_seconds']:.1f} s in all"
    )
