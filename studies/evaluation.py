"""What is asked for, run and stored: the runs of an evaluation that are not there yet, or a study."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from alteraser.data.datasets import load_dataset
from alteraser.data.interactions import Interactions
from alteraser.data.requests import Requests
from alteraser.data.synthetic import synthetic
from alteraser.errors import OutputExists, SettingError
from alteraser.kernels.jit import n_threads
from alteraser.models.enmf import ENMF
from alteraser.report.datasheet import datasheet
from evidence.store import Result, Store
from studies.methods import METHODS, ORIGINAL, methods_of
from studies.questions import STUDIES, Records, slice_of
from studies.run import Case, Scenario, run_case
from studies.settings import Regime, Settings, chosen_settings


@dataclass(frozen=True)
class Evaluation:
    """Which runs."""

    datasets: tuple[str, ...]
    scenarios: tuple[Scenario, ...]
    regimes: tuple[Regime, ...]
    runs: int = 5
    seed: int = 0
    methods: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        known = {ORIGINAL, *METHODS}
        if self.methods is not None and (unknown := [name for name in self.methods if name not in known]):
            raise SettingError(
                f"No method is called {', '.join(unknown)}; there are {', '.join(sorted(known))}."
            )

    def cases(self) -> Iterator[Case]:
        """Run by run, so that an evaluation broken off has a bit of everything."""
        for run in range(self.runs):
            for dataset in self.datasets:
                for regime in self.regimes:
                    for scenario in self.scenarios:
                        yield Case(dataset, scenario, regime, run, self.seed)


def evaluate(
    evaluation: Evaluation,
    folder: Path,
    *,
    data_dir: Path | None = None,
    resume: bool = False,
    announce: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Runs what is asked for and returns the figures of every method; a run goes to disk as soon as it ends."""
    store, cases = Store(folder), list(evaluation.cases())
    there = [case for case in cases if find_run(store, case)]
    if there and not resume:
        raise OutputExists(
            f"{folder} holds {len(there)} of these {len(cases)} runs already. Go on with --resume, or name another "
            f"folder."
        )
    store.create()
    data: dict[str, Interactions] = {
        name: load_dataset(name, data_dir=data_dir) for name in evaluation.datasets
    }
    todo = [case for case in cases if case not in there]
    if todo:
        announce("compiling the kernels")
        warm_up(tuple({case.regime for case in todo}))
    for number, case in enumerate(todo, start=1):
        heading = f"run {number} of {len(todo)}: {case.dataset}, {case.scenario}, {case.regime}"
        settings = chosen_settings(case.dataset, case.regime)
        records = run_case(
            case,
            data[case.dataset],
            settings,
            methods=evaluation.methods,
            announce=lambda what, heading=heading: announce(f"{heading}: {what}"),  # type: ignore[misc]
        )
        about = {"data": sizes(data[case.dataset]), "settings": settings.to_dict(), "made_with": made_with()}
        add_run(store, case, about | {"results": records})
    return [record for case in cases for record in find_run(store, case)["results"]]


def examine(
    which: str,
    case: Case,
    folder: Path,
    *,
    n_users: int | None = None,
    data_dir: Path | None = None,
    announce: Callable[[str], None] = lambda _: None,
) -> Records:
    """The figures of a study, which also go to disk; with `n_users`, on the interactions of so many random users."""
    store = Store(folder)
    store.create()
    data, settings = load_dataset(case.dataset, data_dir=data_dir), chosen_settings(case.dataset, case.regime)
    whole = sizes(data)
    if n_users is not None:
        data = slice_of(data, n_users, case.rng("slice"))
    warm_up((case.regime,))
    records = STUDIES[which](case, data, settings, announce)
    about = {"study": which, "data": whole, "users": data.n_users, "settings": settings.to_dict()}
    result = store.stamped({**about, "made_with": made_with(), "records": records})
    store.write(f"{which}-{case.dataset}-{case.regime}", result)
    return records


def add_run(store: Store, case: Case, measured: Result) -> None:
    """Puts a run into the file of its case, beside those that are there."""
    runs = [
        *store.grown(case.name, "runs"),
        store.stamped({"run": case.run, "seed": case.seed, **measured}),
    ]
    store.write(case.name, {"runs": sorted(runs, key=lambda each: (each["seed"], each["run"]))})


def find_run(store: Store, case: Case) -> Result:
    """The run that was stored, or nothing."""
    wanted = (case.run, case.seed)
    runs = store.grown(case.name, "runs")
    return next((each for each in runs if (each["run"], each["seed"]) == wanted), {})


def sizes(data: Interactions) -> dict[str, float]:
    """The statistics the paper prints of its data sets."""
    sheet = datasheet(data)
    return {
        "users": sheet.users,
        "items": sheet.items,
        "interactions": sheet.interactions,
        "density": sheet.density,
    }


def made_with() -> dict[str, Any]:
    """What a figure may depend on besides the code."""
    packages = ("alteraser", "torch", "numba", "numpy", "scipy")
    return {
        "python": platform.python_version(),
        "threads": n_threads(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        **{name: version(name) for name in packages},
    }


def warm_up(regimes: tuple[Regime, ...]) -> None:
    """Run everything once on little data, so that no clock counts compilation."""
    rng = np.random.default_rng(0)
    full = synthetic(rng, n_users=100, n_items=60, mean_interactions=10).data
    requests = Requests.of([{"user": "user-0001"}])
    for regime in regimes:
        settings = Settings(dim=8, batch_users=32)
        model = ENMF.sized_for(full, dim=settings.dim, rng=rng)
        for name in methods_of(regime):
            if name != ORIGINAL:
                METHODS[name].build(settings, regime, lambda _: np.random.default_rng(0), {}).forget(
                    model, full, requests
                )
