"""`alteraser forget`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer
from rich.console import Console

from alteraser.cli.asking import RequestOptions, asks
from alteraser.cli.heavy_imports import heavy_imports
from alteraser.cli.options import (
    Data,
    DataOptions,
    Force,
    Json,
    MissingOption,
    ModelPath,
    Seed,
    example,
    random_generator,
    reads_data,
)
from alteraser.cli.output import counted, progress, show
from alteraser.cli.training import TrainerName, check_trainer_options
from alteraser.cli.wall_clock import wall_seconds

if TYPE_CHECKING:
    from alteraser.data.read_options import ReadOptions
    from alteraser.data.requests import Requests
    from alteraser.data.source_tables import SourceTable
    from alteraser.live.erasure import Erasure
    from alteraser.train.base import Trainer
    from alteraser.unlearn.base import Unlearner
    from alteraser.versions.version import Version

EXAMPLE = example(
    "alteraser forget model ratings.parquet --user 42 --out model2",
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
_PERHAPS = (
    "skipped: met before, as by a retry, or never in the data. Without the key of the first run (--key-file, then and "
    "now) that cannot be told apart"
)
MethodName = Literal["alteraser", "retrain", "warm-start"]
ScopeName = Literal["auto", "forgetting", "affected", "all"]


@reads_data
@asks
def forget(
    model: ModelPath,
    data: Data,
    asked: RequestOptions,
    out: Annotated[
        Path, typer.Option(metavar="MODEL2", help="The folder of the new model.", show_default=False)
    ],
    options: DataOptions,
    remaining: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the data without what is forgotten here, all other rows and columns kept: a text file in the "
            "form of DATA (.csv, .dat, …), or .parquet.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[MethodName, typer.Option(help="How to forget.")] = "alteraser",
    solver: Annotated[
        SolverName | None,
        typer.Option(
            metavar="SOLVER",
            help=f"alteraser: solve rows in passes, as in the paper, by {', '.join(get_args(SolverName))}.",
            show_default="joint Newton steps; with --scope forgetting ah-newton",
        ),
    ] = None,
    scope: Annotated[
        ScopeName | None,
        typer.Option(
            help="alteraser: which rows may move: those that are affected, or all if that costs less (auto); those of "
            "who and what is forgotten; those affected; or all.",
            show_default="auto; all with a solver",
        ),
    ] = None,
    budget_seconds: Annotated[
        float | None,
        typer.Option(help="alteraser: begin no further step after so many seconds.", show_default="no limit"),
    ] = None,
    trainer: Annotated[
        TrainerName | None,
        typer.Option(help="retrain, warm-start: how to train.", show_default="as the model was trained"),
    ] = None,
    max_passes: Annotated[
        int | None,
        typer.Option(
            help="At most so many steps, passes or epochs; not with --scope forgetting.",
            show_default="alteraser its own, else as the model was trained",
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="alteraser: stop when no more than this share is left of the gap that requests opened in the loss. "
            "retrain, warm-start: stop when the loss falls by less than this share.",
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
            "show later which requests were honoured (see verify). Without it a key is made up and thrown away.",
            show_default=False,
        ),
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Make a model forget what the requests name, and write the new model.

    Requests are typed (--user, --item, --pair) or in a file, where a request is a line with a user, an item or both,
    and if wanted a period: columns (or JSON keys) user, item, from and to; in JSON-lines also items, a list. What is
    left empty is not asked for: a user alone means all that the user has. The data is read as it was when the model
    was trained, unless options say otherwise.
    """
    with heavy_imports():
        from alteraser.data.source_tables import open_source
        from alteraser.versions.history import read_key
        from alteraser.versions.version import load_version, make_ready

    make_ready(out, remaining=remaining, force=force)
    key = None if key_file is None else read_key(key_file)
    version = load_version(model)
    settings = {"max_passes": max_passes, "tolerance": tolerance, "learning_rate": learning_rate}
    of_alteraser = {"solver": solver, "scope": scope, "budget_seconds": budget_seconds}
    unlearner = _unlearner(version, method, of_alteraser, trainer, settings | {"solve_h": solve_h}, seed=seed)
    requests = asked.read()
    read_options = options.read_options(data, version.read_options)
    full = version.read(data, data_dir=options.data_dir, read_options=read_options)
    source = cache(lambda: open_source(data, data_dir=options.data_dir, read_options=read_options))
    with progress("Forgetting") as watch:
        following, erasure = version.forget(
            full, requests, unlearner=unlearner, key=key, missing=missing, source=source, progress=watch
        )
    rest = None if remaining is None else (source().without(requests), remaining)
    following.save(out, remaining=rest, force=force)
    result = {"out": str(out), "remaining": str(remaining) if remaining else None} | _result(
        version, erasure, method, unmatched=_unmatched(version, requests, erasure, key, source)
    )
    result["wall_seconds"] = wall_seconds()
    told = erasure.converged or scope == "forgetting" or not erasure.requests.n_honoured
    why = _left_out_as(read_options)
    show(result, as_json=json, human=lambda to: _human(to, result, met=told, why=why))


def _unlearner(
    version: Version,
    method: MethodName,
    of_alteraser: dict[str, Any],
    trainer: TrainerName | None,
    settings: dict[str, Any],
    *,
    seed: int,
) -> Unlearner:
    from alteraser.errors import SettingError
    from alteraser.unlearn.retrain import Retrain, WarmStart

    rng = random_generator(seed, method, len(version.history))
    if method == "alteraser":
        if trainer is not None:
            raise SettingError("--trainer is a setting of retrain and warm-start; the method is alteraser.")
        return _eraser(version, **of_alteraser, **settings)
    for name, value in of_alteraser.items():
        if value is not None:
            option = name.replace("_", "-")
            raise SettingError(f"--{option} is a setting of alteraser; the method is {method}.")
    if method == "retrain":
        return Retrain(rng, _trainer(version, trainer, "als", settings))
    return WarmStart(rng, _trainer(version, trainer, "adamw", settings))


def _eraser(
    version: Version,
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
    if solve_h is not None and version.kind != "enmf":
        raise SettingError(f"--solve-h is for enmf; the model is {version.kind}.")
    chosen = named_scope(
        scope or ("auto" if solver is None and not solve_h else "all"),
        solver=None if solver is None else SOLVERS[solver],
        solve_shared=solve_h,
        tolerance=tolerance,
        max_passes=max_passes,
    )
    return AltEraser(chosen, budget_seconds=math.inf if budget_seconds is None else budget_seconds)


def _trainer(
    version: Version, name: TrainerName | None, usual: TrainerName, settings: dict[str, Any]
) -> Trainer:
    """The one that trained the model, with what options say on top; another has its own defaults."""
    from alteraser.train.named import named_trainer, recorded_trainer

    record = dict(version.training or {"trainer": usual})
    recorded_trainer(record)  # raises of the manifest, before anything is said of the options
    if name is not None and name != record["trainer"]:
        record = {"trainer": name}
    learning_rate, solve_h = settings["learning_rate"], settings["solve_h"]
    check_trainer_options(record["trainer"], version.kind, learning_rate=learning_rate, solve_h=solve_h)
    return named_trainer(**record | {name: value for name, value in settings.items() if value is not None})


def _unmatched(
    version: Version,
    requests: Requests,
    erasure: Erasure[Any],
    key: bytes | None,
    source: Callable[[], SourceTable],
) -> dict[str, int]:
    """How many of the requests that match nothing to forget are of which kind."""
    nothing = erasure.requests.n_events == 0
    if not nothing.any():
        return dict.fromkeys(("not_trained_on", "met_before", "perhaps_met_before", "missing"), 0)
    left_out = nothing & (source().match(requests).counts.n_events > 0)
    nothing &= ~left_out
    met = version.met_before(requests, key)
    return {
        "not_trained_on": int(left_out.sum()),
        "met_before": int((nothing & met.certain).sum()),
        "perhaps_met_before": int((nothing & met.perhaps).sum()),
        "missing": int((nothing & ~met.certain & ~met.perhaps).sum()),
    }


def _left_out_as(read_options: ReadOptions) -> str:
    """Why rows of the data were not trained on."""
    rating, core = read_options.min_rating, read_options.min_interactions
    reasons = [] if rating is None else [f"rated below {rating:g}"]
    reasons += [] if core is None else [f"of users or items with fewer than {core} interactions"]
    return " or ".join(reasons)


def _result(
    version: Version, erasure: Erasure[Any], method: str, *, unmatched: dict[str, int]
) -> dict[str, Any]:
    from alteraser.data.interactions import Side

    remain, requests, cost = erasure.remain, erasure.requests, erasure.cost
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
            **unmatched,
            "null_times": requests.n_null_times,
        },
        "remaining_interactions": len(remain),
        "remaining_users": len(remain.by(Side.USERS).occupied),
        "cost": {
            "seconds": cost.seconds,
            "steps": cost.steps,
            "passes": cost.passes,
            "rows_visited": cost.rows_visited,
            "loss_before": erasure.loss_before,
            "loss_after": erasure.loss_after,
            "gradient_before": version.model.gradient_norm(remain),
            "gradient_after": erasure.model.gradient_norm(remain),
        },
        "converged": erasure.converged,
    }


def _human(to: Console, result: dict[str, Any], *, met: bool, why: str) -> None:
    requests, cost, forgotten = result["requests"], result["cost"], result["forgotten"]
    kept = "still in the data, which --remaining writes without it"
    if result["remaining"]:
        kept = "not in the remaining data any more"
    if requests["honoured"]:
        to.print(
            f"{counted(requests['honoured'], 'request')} honoured: "
            f"{counted(forgotten['interactions'], 'interaction')} forgotten"
        )
    else:
        what = "that was trained on" if requests["not_trained_on"] else "in the data"
        to.print(f"No request matches anything {what}: the new model is the old one")
    for count, of, text in (
        (requests["repeated"], "request", "made twice, counted once"),
        (requests["not_trained_on"], "request", f"of what was never trained on ({why}): {kept}"),
        (requests["met_before"], "request", "met before: the model has forgotten that already"),
        (requests["perhaps_met_before"], "request", _PERHAPS),
        (requests["missing"], "request", "skipped: nothing in the data matches"),
        (requests["null_times"], "interaction", "without a time passed over by a period"),
        (forgotten["users"], "user", "wholly forgotten, earlier ones included"),
        (forgotten["items"], "item", "wholly forgotten, earlier ones included"),
    ):
        if count:
            to.print(f"{counted(count, of)} {text}")
    if requests["honoured"]:
        to.print(
            f"{cost['seconds']:.3f} s of forgetting, {result['wall_seconds']:.1f} s in all; "
            f"{counted(cost['steps'], 'step')}, {counted(cost['rows_visited'], 'row')} visited\n"
            f"Loss on the remaining data {cost['loss_before']:.2f} → {cost['loss_after']:.2f}, "
            f"gradient norm {cost['gradient_before']:.3g} → {cost['gradient_after']:.3g}"
        )
    if not met:
        to.print(
            "The tolerance was not met: steps or time ran out, or going on would have been training, as it can be "
            "where the model was not trained to its optimum. --method retrain comes closer."
            if result["method"] == "alteraser"
            else "Training ended at its limit of passes, short of its tolerance."
        )
    to.print(f"New model written to {result['out']}")
    if result["remaining"]:
        to.print(f"Remaining data written to {result['remaining']}")
