"""`alteraser forget`."""

from __future__ import annotations

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
from alteraser.cli.training import TrainerName

if TYPE_CHECKING:
    from alteraser.unlearn.base import Outcome, Unlearner

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
    trainer: Annotated[
        TrainerName | None,
        typer.Option(help="retrain, warm-start: how to train.", show_default="retrain als, warm-start adamw"),
    ] = None,
    max_passes: Annotated[
        int | None,
        typer.Option(help="At most so many passes over all rows, or epochs.", show_default="the method's"),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(help="Stop when the loss falls by less than this share.", show_default="the method's"),
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
    from alteraser.data.files import written_reading
    from alteraser.data.request_files import read_requests
    from alteraser.data.writing import check_free, staged_frame
    from alteraser.models.checkpoint import MANIFEST, Batch, StoredModel, load_model, save_model

    check_free(out, force=force, marked_by=MANIFEST)
    if remaining is not None:
        _check_remaining(remaining, out, force=force)
    key = _key(key_file)
    unlearner = _unlearner(method, solver, trainer, max_passes=max_passes, tolerance=tolerance, seed=seed)
    stored = load_model(model)
    asked = read_requests(requests)
    full = stored.aligned(options.open(data, stored.reading))
    with progress("Forgetting") as watch:
        outcome = unlearner.forget(stored.model, full, asked, missing=missing, progress=watch)
    reading = stored.reading if remaining is None else written_reading(outcome.remain)
    honoured = outcome.match.n_requests
    erased = (*stored.erased, Batch(asked.digest(key), honoured)) if honoured else stored.erased
    new = StoredModel.of(outcome.model, outcome.remain, reading=reading, erased=erased)
    with ExitStack() as written:
        if remaining is not None:
            # The data takes its place only once the model has been written.
            written.enter_context(staged_frame(outcome.remain.to_frame(), remaining, force=force))
        save_model(new, out, force=force)
    result = {"out": str(out), "remaining": str(remaining) if remaining else None} | _result(outcome, method)
    show(result, as_json=json, human=lambda to: _human(to, result))


def _check_remaining(remaining: Path, out: Path, *, force: bool) -> None:
    from alteraser.data.writing import check_table_free
    from alteraser.errors import SettingError

    if remaining.resolve().is_relative_to(out.resolve()):
        raise SettingError("--remaining lies in the folder of --out, which holds the model alone. Move it.")
    check_table_free(remaining, force=force)


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


def _unlearner(
    method: MethodName,
    solver: SolverName | None,
    trainer: TrainerName | None,
    *,
    max_passes: int | None,
    tolerance: float | None,
    seed: int,
) -> Unlearner:
    from dataclasses import replace

    from alteraser.errors import SettingError
    from alteraser.optim.solvers import SOLVERS
    from alteraser.train.named import named_trainer
    from alteraser.unlearn.alteraser import AltEraser
    from alteraser.unlearn.retrain import Retrain, WarmStart

    if method == "alteraser" and trainer is not None:
        raise SettingError("--trainer is a setting of retrain and warm-start; the method is alteraser.")
    if method != "alteraser" and solver is not None:
        raise SettingError(f"--solver is a setting of alteraser; the method is {method}.")
    rng = random_generator(seed)
    if method == "retrain":
        return Retrain(rng, named_trainer(trainer or "als", max_passes=max_passes, tolerance=tolerance))
    if method == "warm-start":
        return WarmStart(rng, named_trainer(trainer or "adamw", max_passes=max_passes, tolerance=tolerance))
    eraser = AltEraser(solver=SOLVERS[solver or "ah-newton"])
    eraser = eraser if max_passes is None else replace(eraser, max_passes=max_passes)
    return eraser if tolerance is None else replace(eraser, tolerance=tolerance)


def _result(outcome: Outcome[Any], method: str) -> dict[str, Any]:
    from alteraser.data.interactions import Side

    remain, match, cost = outcome.remain, outcome.match, outcome.cost
    return {
        "method": method,
        "forgotten": {
            "interactions": int(match.mask.sum()),
            "users": remain.user_vocabulary.n_forgotten,
            "items": remain.item_vocabulary.n_forgotten,
        },
        "requests": {
            "honoured": match.n_requests,
            "repeated": match.n_repeated,
            "missing": match.n_missing,
            "null_times": match.n_null_times,
        },
        "remaining_interactions": len(remain),
        "remaining_users": len(remain.by(Side.USERS).occupied),
        "cost": {
            "seconds": cost.seconds,
            "passes": cost.passes,
            "rows_visited": cost.rows_visited,
            "loss_before": cost.loss_before,
            "loss_after": cost.loss_after,
            "gradient_before": cost.gradient_before,
            "gradient_after": cost.gradient_after,
        },
        "converged": outcome.converged,
    }


def _human(to: Console, result: dict[str, Any]) -> None:
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
            f"{cost['seconds']:.3f} s, {cost['passes']} passes, {cost['rows_visited']} rows visited\n"
            f"Loss on the remaining data {cost['loss_before']:.2f} → {cost['loss_after']:.2f}, "
            f"gradient norm {cost['gradient_before']:.3g} → {cost['gradient_after']:.3g}"
        )
    to.print(f"New model written to {result['out']}")
    if result["remaining"]:
        to.print(f"Remaining data written to {result['remaining']}")
