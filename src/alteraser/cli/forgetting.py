"""`alteraser forget`."""

from __future__ import annotations

import math
import secrets
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer
from rich.console import Console

from alteraser.cli.options import (
    Data,
    DataOptions,
    Force,
    Json,
    MissingOption,
    ModelPath,
    RequestFile,
    Seed,
    example,
    random_generator,
    reads_data,
)
from alteraser.cli.output import progress, show
from alteraser.cli.training import TrainerName, check_trainer_options

if TYPE_CHECKING:
    from alteraser.data.interactions import Interactions
    from alteraser.data.read_options import ReadOptions
    from alteraser.live.erasure import Erasure
    from alteraser.models.base import Factored
    from alteraser.models.checkpoint import Batch, StoredModel
    from alteraser.train.base import Trainer
    from alteraser.unlearn.base import Unlearner

EXAMPLE = example(
    "alteraser forget model ratings.parquet --requests requests.csv \\",
    "  --out model2 --remaining rest.parquet",
)
SolverName = Literal[
    "ah-newton",
    "hf-newton",
    "gauss-newton",
    "newton-cg",
    "trust-ncg",
    "trust-krylov",
    "bfgs",
    "l-bfgs",
    "cg",
    "adahessian",
    "adamw",
]
MethodName = Literal["alteraser", "retrain", "warm-start"]
ScopeName = Literal["forgetting", "affected", "all"]


@reads_data
def forget(
    model: ModelPath,
    data: Data,
    requests: RequestFile,
    out: Annotated[
        Path, typer.Option(metavar="MODEL2", help="The folder of the new model.", show_default=False)
    ],
    options: DataOptions,
    remaining: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the remaining data here (.csv or .parquet).", show_default=False
        ),
    ] = None,
    method: Annotated[MethodName, typer.Option(help="How to forget.")] = "alteraser",
    solver: Annotated[
        SolverName | None,
        typer.Option(
            metavar="SOLVER",
            help=f"alteraser: how rows are solved: {', '.join(get_args(SolverName))}.",
            show_default="ah-newton",
        ),
    ] = None,
    scope: Annotated[
        ScopeName | None,
        typer.Option(
            help="alteraser: solve anew the rows of those who forget, all rows they affect, or everybody's.",
            show_default="all",
        ),
    ] = None,
    budget_seconds: Annotated[
        float | None,
        typer.Option(help="alteraser: begin no further pass after so many seconds.", show_default="no limit"),
    ] = None,
    trainer: Annotated[
        TrainerName | None,
        typer.Option(help="retrain, warm-start: how to train.", show_default="as the model was trained"),
    ] = None,
    max_passes: Annotated[
        int | None,
        typer.Option(
            help="At most so many passes over all rows, or epochs.",
            show_default="alteraser its own, else as the model was trained",
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="Stop when the loss falls by less than this share; with --scope affected, when no more than this "
            "share is left of the gap that the deletion opened in it.",
            show_default="alteraser its own, else as the model was trained",
        ),
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(help="adamw as trainer: size of a step.", show_default="as the model was trained"),
    ] = None,
    solve_h: Annotated[
        bool | None,
        typer.Option(
            "--solve-h/--no-solve-h",
            help="alteraser and als, for enmf: also solve h, the dimensions' weights.",
            show_default="alteraser no, else as the model was trained",
        ),
    ] = None,
    missing: MissingOption = "error",
    key_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Key (16 bytes or more) of the digest that the new model keeps of the requests: whoever has it can "
            "show later which requests were honoured. Without it a key is made up and thrown away.",
            show_default=False,
        ),
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Make a model forget what the requests name, and write the new model.

    A request is a line with a user, an item or both, and if wanted a period: columns (or JSON keys) user, item,
    from and to; in JSON-lines also items, a list. What is left empty is not asked for: a user alone means all that
    the user has. The data is read as it was when the model was trained, unless options say otherwise.
    """
    from alteraser.data.files import written_read_options
    from alteraser.data.request_files import read_requests
    from alteraser.data.writing import make_ready, staged_frame
    from alteraser.errors import LeftBehind
    from alteraser.models.checkpoint import MANIFEST, Batch, load_model, save_model

    make_ready(out, force=force, marked_by=MANIFEST)
    if remaining is not None:
        _make_remaining_ready(remaining, out, force=force)
    key = _key(key_file)
    stored = load_model(model)
    settings = {"max_passes": max_passes, "tolerance": tolerance, "learning_rate": learning_rate}
    of_alteraser = {"solver": solver, "scope": scope, "budget_seconds": budget_seconds}
    unlearner = _unlearner(stored, method, of_alteraser, trainer, settings | {"solve_h": solve_h}, seed=seed)
    asked = read_requests(requests)
    full = _full(stored, data, options)
    with progress("Forgetting") as watch:
        outcome = unlearner.forget(stored.model, full, asked, missing=missing, progress=watch)
    read_options = stored.read_options if remaining is None else written_read_options(outcome.remain)
    batch = Batch(asked.digest(key), outcome.requests.n_honoured)
    new = _successor(stored, outcome, batch, unlearner, read_options)
    with ExitStack() as written:
        if remaining is not None:
            # The data takes its place only once the model has been written.
            written.enter_context(staged_frame(outcome.remain.to_frame(), remaining, force=force))
        try:
            save_model(new, out, force=force)
        except LeftBehind:
            written.close()  # the model is in its place, so the data has to take its own
            raise
    result = {"out": str(out), "remaining": str(remaining) if remaining else None} | _result(
        stored.model, outcome, method
    )
    told = outcome.converged or scope == "forgetting" or not outcome.requests.n_honoured
    show(result, as_json=json, human=lambda to: _human(to, result, met=told))


def _make_remaining_ready(remaining: Path, out: Path, *, force: bool) -> None:
    from alteraser.data.writing import make_table_ready
    from alteraser.errors import SettingError

    if remaining.resolve().is_relative_to(out.resolve()):
        raise SettingError("--remaining lies in the folder of --out, which holds the model alone. Move it.")
    make_table_ready(remaining, force=force)


def _key(key_file: Path | None) -> bytes:
    from alteraser.errors import RequestError

    if key_file is None:
        return secrets.token_bytes(32)
    try:
        key = key_file.read_bytes().strip()
    except OSError as error:
        raise RequestError(f"The key file {key_file} could not be read: {error.strerror}.") from None
    if len(key) < 16:
        raise RequestError(f"The key in {key_file} has {len(key)} bytes; at least 16 are wanted.")
    return key


def _full(stored: StoredModel, data: str, options: DataOptions) -> Interactions:
    """The data on the model's rows. Once there is a model its ids are the core, which is not cut anew."""
    read_options = options.read_options(data, stored.read_options)
    if stored.read_options.min_interactions is not None:
        read_options = read_options.with_options({"min_interactions": None})
    return stored.aligned(options.read(data, read_options))


def _unlearner(
    stored: StoredModel,
    method: MethodName,
    of_alteraser: dict[str, Any],
    trainer: TrainerName | None,
    settings: dict[str, Any],
    *,
    seed: int,
) -> Unlearner:
    from alteraser.errors import SettingError
    from alteraser.unlearn.retrain import Retrain, WarmStart

    rng = random_generator(seed, method, len(stored.erased))
    if method == "alteraser":
        if trainer is not None:
            raise SettingError("--trainer is a setting of retrain and warm-start; the method is alteraser.")
        return _eraser(stored, **of_alteraser, **settings)
    for name, value in of_alteraser.items():
        if value is not None:
            option = name.replace("_", "-")
            raise SettingError(f"--{option} is a setting of alteraser; the method is {method}.")
    if method == "retrain":
        return Retrain(rng, _trainer(stored, trainer, "als", settings))
    return WarmStart(rng, _trainer(stored, trainer, "adamw", settings))


def _eraser(
    stored: StoredModel,
    *,
    solver: SolverName | None,
    learning_rate: float | None,
    solve_h: bool | None,
    scope: ScopeName | None,
    tolerance: float | None,
    max_passes: int | None,
    budget_seconds: float | None,
) -> Unlearner:
    from alteraser.errors import SettingError
    from alteraser.live.scopes import named_scope
    from alteraser.optim.solvers import SOLVERS
    from alteraser.unlearn.alteraser import AltEraser

    if learning_rate is not None:
        raise SettingError("--learning-rate is a setting of retrain and warm-start; the method is alteraser.")
    if solve_h is not None and stored.kind != "enmf":
        raise SettingError(f"--solve-h is for enmf; the model is {stored.kind}.")
    chosen = named_scope(
        scope or "all",
        solver=None if solver is None else SOLVERS[solver],
        solve_shared=solve_h,
        tolerance=tolerance,
        max_passes=max_passes,
    )
    return AltEraser(chosen, budget_seconds=math.inf if budget_seconds is None else budget_seconds)


def _trainer(
    stored: StoredModel, name: TrainerName | None, usual: TrainerName, settings: dict[str, Any]
) -> Trainer:
    """The one that trained the model, with what options say on top; another has its own defaults."""
    from alteraser.train.named import named_trainer, recorded_trainer

    record = dict(stored.training or {"trainer": usual})
    recorded_trainer(record)  # raises of the manifest, before anything is said of the options
    if name is not None and name != record["trainer"]:
        record = {"trainer": name}
    learning_rate, solve_h = settings["learning_rate"], settings["solve_h"]
    check_trainer_options(record["trainer"], stored.kind, learning_rate=learning_rate, solve_h=solve_h)
    return named_trainer(**record | {name: value for name, value in settings.items() if value is not None})


def _successor(
    stored: StoredModel, outcome: Erasure[Any], batch: Batch, unlearner: Unlearner, read_options: ReadOptions
) -> StoredModel:
    """The new model, which remembers the batch; how to train one like it is new only if it was trained anew."""
    from alteraser.models.checkpoint import StoredModel
    from alteraser.train.named import recorded
    from alteraser.unlearn.retrain import Retrain

    erased, training = stored.erased, stored.training
    if batch.count:
        erased = (*erased, batch)
        training = recorded(unlearner.trainer) if isinstance(unlearner, Retrain) else training
    return StoredModel.of(
        outcome.model, outcome.remain, read_options=read_options, erased=erased, training=training
    )


def _result(original: Factored, outcome: Erasure[Any], method: str) -> dict[str, Any]:
    from alteraser.data.interactions import Side

    remain, requests, cost = outcome.remain, outcome.requests, outcome.cost
    return {
        "method": method,
        "forgotten": {
            "interactions": requests.n_forgotten,
            "users": remain.user_vocabulary.n_forgotten,
            "items": remain.item_vocabulary.n_forgotten,
        },
        "requests": {
            "honoured": requests.n_honoured,
            "repeated": requests.n_repeated,
            "missing": requests.n_missing,
            "null_times": requests.n_null_times,
        },
        "remaining_interactions": len(remain),
        "remaining_users": len(remain.by(Side.USERS).occupied),
        "cost": {
            "seconds": cost.seconds,
            "steps": cost.steps,
            "passes": cost.passes,
            "rows_visited": cost.rows_visited,
            "loss_before": outcome.loss_before,
            "loss_after": outcome.loss_after,
            "gradient_before": original.gradient_norm(remain),
            "gradient_after": outcome.model.gradient_norm(remain),
        },
        "converged": outcome.converged,
    }


def _human(to: Console, result: dict[str, Any], *, met: bool) -> None:
    requests, cost, forgotten = result["requests"], result["cost"], result["forgotten"]
    if requests["honoured"]:
        to.print(
            f"{requests['honoured']} requests honoured: {forgotten['interactions']} interactions forgotten"
        )
    else:
        to.print("No request matches anything in the data: the new model is the old one")
    for count, text in (
        (requests["repeated"], "requests repeat another and count once"),
        (requests["missing"], "requests match nothing in the data and were skipped"),
        (requests["null_times"], "interactions without a time were passed over by a period"),
        (forgotten["users"], "users are wholly forgotten, earlier ones included"),
        (forgotten["items"], "items are wholly forgotten, earlier ones included"),
    ):
        if count:
            to.print(f"{count} {text}")
    if requests["honoured"]:
        to.print(
            f"{cost['seconds']:.3f} s, {cost['steps']} steps, {cost['rows_visited']} rows visited\n"
            f"Loss on the remaining data {cost['loss_before']:.2f} → {cost['loss_after']:.2f}, "
            f"gradient norm {cost['gradient_before']:.3g} → {cost['gradient_after']:.3g}"
        )
    if not met:
        to.print(
            "The tolerance was not met: passes or time ran out, or going on would have raised the loss, as it can "
            "where the model was not trained to its optimum. --scope all or --method retrain comes closer."
        )
    to.print(f"New model written to {result['out']}")
    if result["remaining"]:
        to.print(f"Remaining data written to {result['remaining']}")
