"""The originals that requests start from, trained once and kept on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from alteraser.data.datasets import is_dataset, load_dataset
from alteraser.data.interactions import Interactions
from alteraser.models.mf import MF
from alteraser.train.adamw import AdamW
from alteraser.train.als import ALS
from alteraser.train.base import Trainer
from alteraser.train.named import TO_THE_OPTIMUM
from alteraser.tuning.choose import choose_objective
from alteraser.versions.version import Version, load_version
from benchmarks.generated import generated
from benchmarks.kinds.reference import References
from benchmarks.kinds.requests import with_times
from studies.defaults_data import data_folder, named_case

DIM = 64
GENERATED = {"generated 1 M": 1_000_000, "generated 10 M": 10_000_000}
DATASETS = ("ml-1m", "amazon-14core", "kuairec-binary", "amazon-book-kgat", "generated 10 M")
# At which nobody looked when the constants of the engine were set; measured when they are named.
FURTHER = ("ml-100k", "tafeng", "amazon-sports", "amazon-beauty", "diginetica")
OPTIMUM, DEFAULT, ADAMW, EARLY = ORIGINALS = ("optimum", "default", "AdamW", "3 passes")
# So much of the residual that training leaves may stay: the gap goes with its square.
AT_OPTIMUM = 1e-3
TRAINERS: dict[str, Trainer] = {
    OPTIMUM: TO_THE_OPTIMUM,
    DEFAULT: ALS(),
    ADAMW: AdamW(),
    EARLY: ALS(max_passes=3, tolerance=0),
}


def load_data(name: str, data_dir: str | None) -> Interactions:
    """One of the nine data sets, or a generated one; with times."""
    if name in GENERATED:
        return with_times(generated(GENERATED[name], np.random.default_rng(0)))
    if is_dataset(name):
        return with_times(load_dataset(name, data_dir=data_dir))
    case = named_case(name)
    return with_times(case.load(data_folder(None if data_dir is None else Path(data_dir))))


class Originals:
    """The originals of one data set, with the settings that `alteraser train` chooses for it."""

    def __init__(self, name: str, data: Interactions, folder: Path) -> None:
        self._data = data
        self.folder = folder / name.replace(" ", "-")
        self.folder.mkdir(parents=True, exist_ok=True)

    def model(self, original: str) -> MF:
        """The original of that name; trained and written down the first time it is asked for."""
        path = self.folder / original.replace(" ", "-")
        if path.is_dir():
            found = load_version(path).model
            assert isinstance(found, MF)
            return found
        start = self._start()
        if path.is_dir():  # that of three passes is written together with its settings
            return self.model(original)
        model = TRAINERS[original].train(start, self._data, rng=np.random.default_rng(1)).model
        if original == OPTIMUM:  # in single precision training ends where its own gap is still that of a pair
            exact = (
                References(model, self._data, at_optimum=True).find(self._data, precision=AT_OPTIMUM).model
            )
            tables = {name: value.to(model.dtype) for name, value in exact.parameters().items()}
            model = model.with_parameters(tables)
        Version.of(model, self._data).save(path)
        return model

    def _start(self) -> MF:
        """Random rows; the settings are chosen once and kept with the model of three passes."""
        rng = np.random.default_rng(0)
        path = self.folder / EARLY.replace(" ", "-")
        if path.is_dir():
            settings = load_version(path).model
            assert isinstance(settings, MF)
            return settings.fresh(rng)
        objective = choose_objective(self._data, dim=DIM, rng=rng).objective
        start = MF.sized_for(self._data, dim=DIM, objective=objective, rng=rng)
        early = TRAINERS[EARLY].train(start, self._data, rng=None).model
        Version.of(early, self._data).save(path)
        return start
