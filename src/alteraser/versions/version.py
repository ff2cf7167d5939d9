"""`Version`: a model as it is kept, and the way to the next one: load → align → forget → write."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from alteraser.data.datasets import open_data
from alteraser.data.files import written_read_options
from alteraser.data.interactions import Interactions, Side, Vocabulary
from alteraser.data.read_options import ReadOptions
from alteraser.data.requests import Missing, Requests
from alteraser.data.source_tables import SourceTable
from alteraser.data.writing import PLAIN_TEXT, TextForm, atomic_folder, make_table_ready, staged_frame
from alteraser.data.writing import make_ready as make_path_ready
from alteraser.errors import LeftBehind, MismatchError, ModelFileError, SettingError, UnknownInteractions
from alteraser.live.erasure import Erasure
from alteraser.live.model import LiveModel
from alteraser.measure.recommender import IdRecommender
from alteraser.models.base import Factored, Storable
from alteraser.models.checkpoint import Checkpoint, digest_of, read_checkpoint, storable
from alteraser.models.folder import MANIFEST, raising_model_file_errors
from alteraser.sweep.sweep import Progress
from alteraser.train.base import Trainer
from alteraser.train.named import recorded, recorded_trainer
from alteraser.unlearn.alteraser import AltEraser
from alteraser.unlearn.base import Unlearner
from alteraser.unlearn.retrain import Retrain
from alteraser.versions.history import Batch, Honoured, check_key, find_honoured
from alteraser.versions.met_before import MetBefore, find_met_before


@dataclass(frozen=True, eq=False, repr=False)
class Version:
    """A model with what is to be known of it: whose rows it has, what it was trained on and how, what it forgot.

    `training` holds plain settings of the trainer; None where nobody said. `history` has the batches of requests that
    were forgotten on the way to this version, the oldest first. Neither holds an interaction of anybody.
    """

    model: Storable
    user_vocabulary: Vocabulary
    item_vocabulary: Vocabulary
    read_options: ReadOptions
    data_digest: str
    history: tuple[Batch, ...] = ()
    training: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        return f"Version({self.model!r}, {len(self.history)} batches forgotten)"

    @classmethod
    def of(
        cls,
        model: Factored,
        data: Interactions,
        *,
        read_options: ReadOptions | None = None,
        trainer: Trainer | None = None,
        history: tuple[Batch, ...] = (),
    ) -> Version:
        """The model as trained by `trainer` on `data`, which was read as `read_options` says.

        Unless given, `read_options` is that of the file which `write_interactions` makes of the data.
        """
        model.check_belongs(data)
        return cls(
            model=storable(model),
            user_vocabulary=data.user_vocabulary,
            item_vocabulary=data.item_vocabulary,
            read_options=(read_options or written_read_options(data)).as_trained(),
            data_digest=data.digest(),
            history=history,
            training=None if trainer is None else recorded(trainer),
        )

    @property
    def kind(self) -> str:
        """The model's name in the manifest and for the command."""
        return self.model.kind

    @property
    def trainer(self) -> Trainer | None:
        """The trainer that trained the model; None where nobody said."""
        return None if self.training is None else recorded_trainer(self.training)

    @property
    def recommender(self) -> IdRecommender:
        """The model as one that recommends by ids."""
        return IdRecommender(self.model, self.user_vocabulary, self.item_vocabulary)

    @cached_property
    def digest(self) -> str:
        """The digest of the folder that is written of this version, or that it was read from: its manifest's own."""
        return digest_of(self._checkpoint.files())

    def provenance(self) -> dict[str, str]:
        """Where the model comes from, as names and texts for people: settings, training, erasures, digests."""
        settings = {"model": self.kind, **self.model.settings()}
        training = {"trainer": "not said"} if self.training is None else dict(self.training)
        told = {name: f"{value}" for name, value in (settings | training).items()}
        last = self.history[-1] if self.history else None
        told["batches forgotten"] = "none" if last is None else f"{len(self.history)}"
        if last is not None and last.method is not None:
            told["last erasure"] = f"by {last.method}, {last.date}"
        return told | {"SHA-256 of the data": self.data_digest, "SHA-256 of the model": self.digest}

    def read(
        self,
        name_or_path: str | Path,
        *,
        data_dir: str | Path | None = None,
        read_options: ReadOptions | None = None,
    ) -> Interactions:
        """The data of this version, or what has become of it, read as it was unless `read_options` are given."""
        read_options = self._uncut(read_options or self.read_options)
        return open_data(name_or_path, data_dir=data_dir, read_options=read_options)

    def aligned(self, data: Interactions) -> Interactions:
        """`data` on the model's rows; raises unless it is what the model was trained on, or what remained of it.

        Where the training data was the core of a larger store, the model's ids are that core, and the rest of the
        store is left out: cut anew after a deletion, the core would lose more than was deleted.
        """
        if self.read_options.min_interactions is None:
            data = data.aligned(self.user_vocabulary, self.item_vocabulary)
        else:
            data, _ = data.known_to(self.user_vocabulary, self.item_vocabulary)
        if data.digest() != self.data_digest:
            raise MismatchError(
                "The data is not what this model was trained on (its digest differs from the manifest's). Give the "
                "file it was trained on, read with the same options, or after a forgetting the remaining data it wrote."
            )
        return data

    def on(self, data: Interactions) -> Storable:
        """The model with its rows in the order of the data's vocabulary; ids it does not know have empty rows."""
        tables = {}
        for side, own in ((Side.USERS, self.user_vocabulary), (Side.ITEMS, self.item_vocabulary)):
            rows = torch.from_numpy(own.rows(data.vocabulary(side).ids))
            known = self.model.table(side)[rows.clamp_min(0)]
            tables[side.value] = torch.where((rows >= 0)[:, None], known, self.model.empty_row(side))
        return self.model.with_parameters({**self.model.parameters(), **tables})

    def forget(
        self,
        data: Interactions,
        requests: Requests,
        *,
        unlearner: Unlearner | None = None,
        key: bytes | None = None,
        missing: Missing = "error",
        source: Callable[[], SourceTable] | None = None,
        progress: Progress | None = None,
        date: datetime | None = None,
    ) -> tuple[Version, Erasure[Storable]]:
        """The next version, which has forgotten what is requested and remembers the batch; and the erasure.

        `data` is that of this version, on any rows. `unlearner` is `AltEraser()` unless given. A request that matches
        nothing because this version has met it already (`met_before`) is passed over also where `missing` is "error";
        without a key, so are as many requests as in the last batch if none matches anything and each may have been met.
        `source` opens the table that the data was read from: a request of rows there that reading left out, as rated
        too low, has nothing to forget and is passed over, too. For the rest see `after`.
        """
        if key is not None:
            check_key(key)
        chosen = AltEraser() if unlearner is None else unlearner
        full = self.aligned(data)
        try:
            erasure = chosen.forget(self.model, full, requests, missing=missing, progress=progress)
        except UnknownInteractions:
            n_found = requests.match(full, missing="ignore").counts.n_events
            if source is not None:
                n_found = np.maximum(n_found, source().match(requests).counts.n_events)
            met = self.met_before(requests, key)
            last = self.history[-1].count if self.history and key is None else 0
            if not met.repeats(n_found, last):
                met.check(requests, n_found)
            erasure = chosen.forget(self.model, full, requests, missing="ignore", progress=progress)
        return self.after(erasure, requests, unlearner=chosen, key=key, date=date), erasure

    def after(
        self,
        erasure: Erasure[Any],
        requests: Requests,
        *,
        unlearner: Unlearner | LiveModel[Any],
        key: bytes | None = None,
        date: datetime | None = None,
    ) -> Version:
        """The version that an erasure, made of this one's model for `requests`, leads to.

        It may be that of a live model, if no other request came to it since.

        Whoever has the `key` can show later which requests were honoured (`honours`); without one a key is made up and
        thrown away, and nobody can. `date` is now unless given. Where no request was honoured no batch is added. How
        to train a model like this one changes only if it was trained anew.
        """
        if key is not None:
            check_key(key)
        model = erasure.model.model if isinstance(erasure.model, LiveModel) else erasure.model
        following = Version.of(model, erasure.remain, read_options=self.read_options)
        if not erasure.requests.n_honoured:
            return replace(following, history=self.history, training=self.training)
        batch = Batch.of(
            erasure,
            requests,
            unlearner=unlearner,
            key=secrets.token_bytes(32) if key is None else key,
            parent=self.digest,
            date=datetime.now(UTC) if date is None else date,
        )
        training = recorded(unlearner.trainer) if isinstance(unlearner, Retrain) else self.training
        return replace(following, history=(*self.history, batch), training=training)

    def honours(self, requests: Requests, key: bytes) -> Honoured:
        """Which of the requests were honoured on the way to this version, as far as this key tells."""
        return find_honoured(self.history, requests, key)

    def met_before(self, requests: Requests, key: bytes | None = None) -> MetBefore:
        """Which distinct requests this version has met already, by the key they were forgotten with or without it.

        Without it only the empty rows of wholly forgotten users and items tell, and where ids are not counted up they
        tell no more than "perhaps"; so it is with pairs and periods of users and items that are still there.
        """
        distinct = requests.distinct()
        by_key = None if key is None else self.honours(distinct, key).batches >= 0
        return find_met_before(
            distinct,
            self.user_vocabulary,
            self.item_vocabulary,
            has_history=bool(self.history),
            by_key=by_key,
        )

    def save(
        self,
        path: str | Path,
        *,
        remaining: tuple[Interactions | SourceTable, str | Path] | None = None,
        force: bool = False,
    ) -> Version:
        """Write the folder, whole or not at all, and give back the version as it was written.

        `remaining` is the data this version is left with, or the table that holds it, and the file to write it to: both
        outputs appear, or neither. The version then reads that file. `LeftBehind` says that all was written, but that
        the folder it replaces could not be removed.
        """
        path = Path(path)
        make_ready(path, remaining=None if remaining is None else Path(remaining[1]), force=force)
        with ExitStack() as outputs:
            written = self
            if remaining is not None:
                data, file = remaining[0], Path(remaining[1])
                if isinstance(data, SourceTable):
                    form, table = data.form_for(file), data.frame_for(file)
                else:
                    form, table = TextForm.of(file), data.to_frame()
                written = self._reading(data, form.read_options(file))
                # The data takes its place only once the model has been written.
                outputs.enter_context(staged_frame(table, file, form=form, force=force))
            try:
                written._write(path, force=force)
            except LeftBehind:
                outputs.close()  # the model is in its place, so the data has to take its own
                raise
        return written

    def _reading(self, data: Interactions | SourceTable, form: Mapping[str, Any]) -> Version:
        """The version that reads its data from the file which is written of it in that form."""
        if isinstance(data, Interactions):
            belongs, read_options = data.digest() == self.data_digest, written_read_options(data)
        else:
            read_options = data.read_options
            events = data.interactions(self._uncut(read_options))
            known, n_unknown = events.known_to(self.user_vocabulary, self.item_vocabulary)
            cut = self.read_options.min_interactions is not None
            belongs = known.digest() == self.data_digest and (cut or not n_unknown)
        if not belongs:
            raise MismatchError(
                "The remaining data is not that of this version (its digest differs). Give the `remain` of the erasure "
                "that made it, or the table without what was requested."
            )
        read_options = read_options.with_options(form).as_trained()
        return self if read_options == self.read_options else replace(self, read_options=read_options)

    def _uncut(self, read_options: ReadOptions) -> ReadOptions:
        """Once there is a model its ids are the core of the data, which is not cut anew."""
        if self.read_options.min_interactions is None:
            return read_options
        return read_options.with_options({"min_interactions": None})

    def _write(self, path: Path, *, force: bool) -> None:
        files = self._checkpoint.files()
        with atomic_folder(path, marked_by=MANIFEST, force=force) as folder:
            # Written by Python, a full disk is an OSError, and all files may be read by the same people.
            for name, content in files.items():
                (folder / name).write_bytes(content)
        self.__dict__["digest"] = digest_of(files)  # that of the folder, also where another format was read

    @property
    def _checkpoint(self) -> Checkpoint:
        record = {
            "training": None if self.training is None else dict(self.training),
            "data": {"sha256": self.data_digest, "reading": self.read_options.to_dict()},
            "history": [batch.to_dict() for batch in self.history],
        }
        return Checkpoint(self.model, self.user_vocabulary, self.item_vocabulary, record)


def make_ready(path: Path, *, remaining: Path | None = None, force: bool = False) -> None:
    """Raise unless a version can be put at `path` and its data at `remaining`; done before long work, too."""
    make_path_ready(path, force=force, marked_by=MANIFEST)
    if remaining is None:
        return
    if remaining.resolve().is_relative_to(path.resolve()):
        raise SettingError(
            "The remaining data was to be written into the folder of the model (--remaining lies in --out), which "
            "holds the model alone. Move it."
        )
    make_table_ready(remaining, force=force, also=PLAIN_TEXT)


def load_version(path: str | Path) -> Version:
    """The version in a folder; every file is checked against the manifest before anything is made of it."""
    folder = Path(path)
    checkpoint, digest = read_checkpoint(folder)
    with raising_model_file_errors(folder):
        record = checkpoint.record
        batches = record["history"] if "history" in record else record["requests"]  # as format 1 calls it
        version = Version(
            model=checkpoint.model,
            user_vocabulary=checkpoint.user_vocabulary,
            item_vocabulary=checkpoint.item_vocabulary,
            read_options=ReadOptions.from_dict(record["data"]["reading"]).as_trained(),
            data_digest=str(record["data"]["sha256"]),
            history=tuple(Batch.from_dict(each) for each in batches),
            training=_training(record.get("training")),
        )
    # Another release of a library may write the same in other bytes: what was read counts.
    version.__dict__["digest"] = digest
    return version


def _training(record: Any) -> dict[str, Any] | None:
    if record is None:
        return None
    if not isinstance(record, dict) or not all(
        isinstance(x, str | int | float | None) for x in record.values()
    ):
        raise ModelFileError(
            "How the model was trained is not told in plain settings. Take it from a backup."
        )
    return record
