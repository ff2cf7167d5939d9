"""How good the default settings are: their NDCG@10 beside the best of a grid, on data they were not made for.

A data set is split into a part to train on, a validation part and a test part. Every point of the grid is trained; the
one that is best on the validation part counts with its figure on the test part. The defaults see the training part
alone. The rule they start from has two constants, which are calibrated on the grids of the other originals: each figure
is of a rule that has not seen that data set or its derivatives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions, Side
from alteraser.errors import SettingError
from alteraser.measure.baselines import MostPopular
from alteraser.models.objective import RULE, Objective, Rule, noise_edge_at
from alteraser.tuning.choose import choose_objective
from evidence.store import Result, Store
from studies import defaults_rivals as rivals
from studies.defaults_data import ORIGINALS, DataCase
from studies.defaults_split import DIM, Split
from studies.training_curves import training_curves

GRID_W0, GRID_L2 = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3), (0.001, 0.003, 0.01, 0.03, 0.1)
# The grid of implicit's settings, as many points: of alpha, which is 1/w0, and of its plain penalty.
GRID_ALPHA, GRID_REGULARIZATION = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0), (0.01, 0.1, 1.0, 10.0, 100.0)
W0_FACTORS, TIGHTNESSES = (0.5, 0.7, 1.0, 1.4, 2.0), (0.15, 0.2, 0.3, 0.4, 0.5)
MEASUREMENTS = ("grid", "default", "rule", "popular", "implicit", "implicit-grid", "tune", "curve")
Announce = Callable[[str], None]


def named_measurements(text: str) -> tuple[str, ...]:
    """What is to be measured, from a list separated by commas."""
    named = tuple(part.strip() for part in text.split(","))
    if unknown := [each for each in named if each not in MEASUREMENTS]:
        raise SettingError(
            f"{', '.join(map(repr, unknown))} cannot be measured; {', '.join(MEASUREMENTS)} can."
        )
    return named


def measure(
    case: DataCase,
    store: Store,
    *,
    seeds: Sequence[int],
    what: Sequence[str],
    folder: Path,
    dim: int = DIM,
    announce: Announce = lambda _: None,
) -> list[Result]:
    """The records of a case; those that the store holds are not made again."""
    store.create()
    records = store.grown(case.name, "records")
    rule = rule_without(case.origin, store) if "default" in what or "rule" in what else RULE
    data = case.load(folder)
    described = {"case": case.name, "origin": case.origin, "data": describe(data)}
    for seed in seeds:
        split = Split.of(data, seed, dim=dim)
        for key, make in _wanted(split, what, rule, records):
            if any(all(each.get(name) == value for name, value in key.items()) for each in records):
                continue
            announce(f"{case.name}, seed {seed}: {', '.join(f'{value}' for value in key.values())}")
            records.append(store.stamped({**key, **make()}))
            store.write(case.name, {**described, "records": records})
    return records


def _wanted(
    split: Split, what: Sequence[str], rule: Rule, records: Sequence[Result]
) -> Iterable[tuple[Result, Callable[[], Result]]]:
    """What is to be measured with one split: the key of each record, and what makes it from those that are there."""
    seed = {"seed": split.seed}
    if "grid" in what:
        for w0, l2 in product(GRID_W0, GRID_L2):
            point = {"what": "grid", **seed, "w0": w0, "l2": l2}
            objective = Objective(w0=w0, l2=l2)
            yield point, lambda objective=objective: split.train_and_evaluate(objective)  # type: ignore[misc]
    if "default" in what:
        yield {"what": "default", **seed}, lambda: _default(split, rule)
    if "rule" in what:
        of_rule = {"w0_factor": rule.w0_factor, "tightness": rule.tightness}
        yield (
            {"what": "rule", **seed},
            lambda: {**split.train_and_evaluate(Objective.for_data(split.train, rule=rule)), **of_rule},
        )
    if "popular" in what:
        yield {"what": "popular", **seed}, lambda: split.ndcg(MostPopular.of(split.train))
    if "tune" in what:
        yield {"what": "tune", **seed}, lambda: rivals.tuned(split)
    if "implicit" in what:
        yield {"what": "implicit", **seed}, lambda: rivals.implicit(split)
    if "implicit-grid" in what:
        for alpha, regularization in product(GRID_ALPHA, GRID_REGULARIZATION):
            settings = {"alpha": alpha, "regularization": regularization}
            yield (
                {"what": "implicit-grid", **seed, **settings},
                lambda settings=settings: rivals.implicit(split, **settings),  # type: ignore[misc]
            )
    if "curve" in what:
        yield {"what": "curve", **seed}, lambda: training_curves(split, *_best_of_both_grids(split, records))


def _best_of_both_grids(split: Split, records: Sequence[Result]) -> tuple[Result, Result]:
    """The records of our settings and of implicit's that are best on the validation part of this split."""
    found = []
    for grid in ("grid", "implicit-grid"):
        points = [each for each in records if (each["what"], each["seed"]) == (grid, split.seed)]
        if len(points) < len(GRID_W0) * len(GRID_L2):
            raise SettingError(f"A curve needs the best of {grid}, which is not whole: measure that first.")
        found.append(max(points, key=lambda point: float(point["validation"])))
    return found[0], found[1]


def _default(split: Split, rule: Rule) -> Result:
    began = time.perf_counter()
    choice = choose_objective(
        split.train, dim=split.dim, rng=np.random.default_rng([split.seed, 4]), rule=rule
    )
    looked = {"seconds_choosing": time.perf_counter() - began, "candidates": len(choice.candidates)}
    of_rule = {"w0_factor": rule.w0_factor, "tightness": rule.tightness}
    return {**split.train_and_evaluate(choice.objective), **looked, **of_rule}


def describe(data: Interactions) -> Result:
    """What the rule asks of a data set, so that it can be calibrated without the data."""
    edges = {}
    for w0 in GRID_W0:
        edges[str(w0)] = noise_edge_at(w0, data)
    n_pairs = data.by(Side.USERS).n_entries
    return {
        "users": data.n_users,
        "items": data.n_items,
        "pairs": n_pairs,
        "density": n_pairs / (data.n_users * data.n_items),
        "noise_edge": edges,
    }


def rule_without(origin: str, store: Store) -> Rule:
    """The rule whose settings do best, on the mean, on the grids of the other originals."""
    surfaces = [
        _Surface.of(store.read(name))
        for name in ORIGINALS
        if name != origin and store.has(name) and _Surface.is_whole(store.read(name))
    ]
    if not surfaces:
        return RULE
    rules = [Rule(w0_factor=factor, tightness=share) for factor, share in product(W0_FACTORS, TIGHTNESSES)]
    return max(rules, key=lambda rule: float(np.mean([surface.share(rule) for surface in surfaces])))


@dataclass(frozen=True, eq=False)
class _Surface:
    """The NDCG@10 of a grid with one split as a share of its best, by w0 and then by tightness, l2 over the noise edge.

    Between the points it is interpolated in these coordinates, in which good settings lie on a straight ridge.
    """

    density: float
    tightness: NDArray[np.float64]  # [w0, l2]
    ndcg: NDArray[np.float64]  # [w0, l2]

    @staticmethod
    def is_whole(result: Mapping[str, Any]) -> bool:
        return len(_first_grid(result)) == len(GRID_W0) * len(GRID_L2)

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> _Surface:
        found = {(each["w0"], each["l2"]): each["validation"] for each in _first_grid(result)}
        values = np.array([[found[w0, l2] for l2 in GRID_L2] for w0 in GRID_W0])
        edges = np.array([result["data"]["noise_edge"][str(w0)] for w0 in GRID_W0])
        return cls(
            result["data"]["density"], np.array(GRID_L2)[None, :] / edges[:, None], values / values.max()
        )

    def share(self, rule: Rule) -> float:
        """What settings by the rule would reach; those outside of the grid count as at its border."""
        at_rule = [
            np.interp(np.log(rule.tightness), np.log(tightness), ndcg)
            for tightness, ndcg in zip(self.tightness, self.ndcg, strict=True)
        ]
        return float(np.interp(np.log(rule.w0_factor * self.density**0.5), np.log(GRID_W0), at_rule))


def _first_grid(result: Mapping[str, Any]) -> list[Result]:
    return [each for each in result["records"] if each["what"] == "grid" and each["seed"] == 0]
