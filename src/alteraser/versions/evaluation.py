"""Evaluates versions on held-out interactions, or a new model like a version on a part of the version's data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alteraser.data.interactions import Interactions
from alteraser.data.split import holdout
from alteraser.errors import MismatchError
from alteraser.measure.compare import KS
from alteraser.measure.evaluation import MAX_USERS, Evaluation, evaluate
from alteraser.models.base import Storable
from alteraser.sweep.sweep import Progress
from alteraser.train.als import ALS
from alteraser.train.base import Training
from alteraser.train.fit import fit
from alteraser.versions.version import Version


def evaluate_version(
    version: Version,
    data: Interactions,
    test: Interactions,
    *,
    ks: Sequence[int] = KS,
    max_users: int = MAX_USERS,
    rng: np.random.Generator | None = None,
) -> tuple[Evaluation, int]:
    """How well a version finds held-out interactions, as `evaluate` has it; and how many of them it does not know.

    `data` is that of the version, on any rows. Test interactions of users or items that are not in the model are left
    out and counted.
    """
    aligned = version.aligned(data)
    known, n_unknown = test.known_to(version.user_vocabulary, version.item_vocabulary)
    if len(known) == 0:
        raise MismatchError(
            f"None of the {n_unknown} test interactions has a user and an item of the model. Give the held-out part of "
            f"the data that the model was trained on, with the same ids."
        )
    return evaluate(version.model, aligned, known, ks=ks, max_users=max_users, rng=rng), n_unknown


def evaluate_holdout(
    version: Version,
    data: Interactions,
    *,
    fraction: float = 0.2,
    ks: Sequence[int] = KS,
    max_users: int = MAX_USERS,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> tuple[Evaluation, Training[Storable]]:
    """How well a model like this version's finds a random fraction of each user's items; and that model's training.

    The version itself has seen all of its data, so that a new model is trained on the rest: of its kind, dimension,
    precision and objective (the constants c and the mean counts too, which hardly differ), by its trainer, which is ALS
    where nobody said.
    """
    learn, held_out = holdout(version.aligned(data), fraction=fraction, rng=rng)
    trainer = version.trainer or ALS()
    training = fit(version.model.fresh(rng), learn, trainer=trainer, rng=rng, progress=progress)
    return evaluate(training.model, learn, held_out, ks=ks, max_users=max_users, rng=rng), training
