"""Versions side by side, on the full data that they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from alteraser.data.datasets import open_data
from alteraser.data.interactions import Interactions, Side
from alteraser.data.read_options import ReadOptions
from alteraser.data.requests import Missing, Requests
from alteraser.errors import MismatchError
from alteraser.measure.compare import Report, compare
from alteraser.models.base import Storable
from alteraser.versions.version import Version

Versions = Mapping[str, Version]


@dataclass(frozen=True, eq=False)
class Comparison:
    """How versions compare, and what to know of it.

    `strangers` names those that were trained neither on the full data nor on what remains of it, perhaps because they
    forgot more: their figures do not wholly compare with the others'. `n_unknown` test interactions name users or items
    that are not in the data, and were left out. `models` are the versions' on the rows of the data, `forget` is what
    was requested of it and `remain` the rest.
    """

    report: Report
    models: dict[str, Storable]
    remain: Interactions
    forget: Interactions | None
    strangers: tuple[str, ...]
    n_unknown: int


def compare_versions(
    versions: Versions,
    full: Interactions,
    requests: Requests | None = None,
    *,
    test: Interactions | None = None,
    reference: str | None = None,
    missing: Missing = "error",
) -> Comparison:
    """What versions remember of what is requested, how they agree, and how accurate they are.

    `full` is the data from before the requests were forgotten; at least one version was trained on it or on what
    remains of it. Without requests there is nothing to remember, and `full` is what lists leave out.
    """
    for name, version in versions.items():
        _check_ids(name, version, full)
    remain, forget = full, None
    if requests is not None:
        match = requests.match(full, missing=missing)
        remain = full.without(match.mask)
        forget = full.only(match.mask) if match.mask.any() else None
    strangers = _strangers(versions, full, remain)
    known, n_unknown = (None, 0) if test is None else _known(test, full)
    models = {name: version.on(full) for name, version in versions.items()}
    left = remain.with_tombstones(full)
    report = compare(models, remain=left, test=known, forget=forget, reference=reference)
    return Comparison(report, models, left, forget, strangers, n_unknown)


def oldest(versions: Versions) -> Version:
    """The version that forgot least, which knows how the full data is read: others may read what remained of it."""
    return min(versions.values(), key=lambda version: len(version.history))


def read_full(
    versions: Versions,
    name_or_path: str | Path,
    requests: Requests | None = None,
    *,
    data_dir: str | Path | None = None,
    read_options: ReadOptions | None = None,
) -> Interactions:
    """The full data of some versions, read as the oldest's was unless `read_options` are given.

    In a chain of forgettings from a core the data has shrunk since the core was cut, and would now be cut to less:
    there the ids that the oldest version knows are the core.
    """
    first = oldest(versions)
    read_options = read_options or first.read_options
    full = open_data(name_or_path, data_dir=data_dir, read_options=read_options)
    cut = first.read_options.min_interactions is not None and len(first.history) > 0
    if not cut or _some_belong(versions, full, requests):
        return full
    store = first.read(name_or_path, data_dir=data_dir, read_options=read_options)
    known, _ = store.known_to(first.user_vocabulary, first.item_vocabulary)
    return known if _some_belong(versions, known, requests) else full


def _some_belong(versions: Versions, full: Interactions, requests: Requests | None) -> bool:
    remain = full if requests is None else full.without(requests.match(full, missing="ignore").mask)
    return not {version.data_digest for version in versions.values()}.isdisjoint(
        {full.digest(), remain.digest()}
    )


def _strangers(versions: Versions, full: Interactions, remain: Interactions) -> tuple[str, ...]:
    digests = (full.digest(), remain.digest())
    strangers = tuple(name for name, each in versions.items() if each.data_digest not in digests)
    if len(strangers) == len(versions):
        raise MismatchError(
            "None of the models was trained on this data, nor on what remains of it after these requests (their "
            "digests differ). Give the full data (--data), read with the same options, and the requests that were "
            "forgotten from it (--requests)."
        )
    return strangers


def _check_ids(name: str, version: Version, full: Interactions) -> None:
    """A version may know fewer users and items than the full data (it forgot some), but no others."""
    n_foreign = sum(
        int((full.vocabulary(side).rows(own.ids.drop_nulls()) < 0).sum())
        for side, own in ((Side.USERS, version.user_vocabulary), (Side.ITEMS, version.item_vocabulary))
    )
    if n_foreign:
        raise MismatchError(
            f"The model {name} knows {n_foreign} users and items that are not in the data. Give the full data (--data) "
            f"that the models were trained on, before anything was forgotten."
        )


def _known(test: Interactions, full: Interactions) -> tuple[Interactions, int]:
    known, n_unknown = test.known_to(full.user_vocabulary, full.item_vocabulary)
    if len(known) == 0:
        raise MismatchError(
            f"None of the {n_unknown} test interactions has a user and an item of the data. Give the test part of "
            f"the same data."
        )
    return known, n_unknown
