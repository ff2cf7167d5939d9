"""What the evaluation set out to reach, computed from the results: wanted, measured, reached or not.

Verdicts are on means over the runs, as the paper's figures are; beside every mean stands the median. A goal that could
not be missed says nothing: where AltEraser ends with the forgetting pass, both its solvers are that one pass.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from alteraser.measure.compare import FORGETTING, OTHERS
from alteraser.report.tables import Table
from evidence.page import SAYS_NOTHING, Verdict, verdicts
from studies.methods import (
    AH_NEWTON,
    DEFAULT,
    HF_NEWTON,
    ORIGINAL,
    RETRAIN,
    RETRAIN_STAR,
    SAME_LOSS,
    SAME_LOSS_CG,
    SAME_LOSS_NEWTON,
    SAME_LOSS_PASSES,
    WARM_START,
)
from studies.retrainings import counted, reaches
from studies.tables import OverFastest, Record, grouped, mean_of, median_of, paper, values_of

KS = ("10", "20", "50")
SPEED_UPS = {"ml-1m": (50.0, 3.44), "kuairec-binary": (20.0, 4.40), "amazon-14core": (20.0, 1.55)}
CONVERGED_SPEED_UPS = {"ml-1m": 10.0, "kuairec-binary": 3.0, "amazon-14core": 3.0}
ACCURACY = (("recall", "Recall@10"), ("ndcg", "NDCG@10"))
Methods = Mapping[str, list[Record]]


def goals_table(records: Sequence[Record], dataset: str, regime: str) -> Table | None:
    """The goals of a data set and regime in the noise scenario; None without the runs."""
    methods = grouped(records).get((dataset, "noise", regime))
    if methods is None or not {RETRAIN, RETRAIN_STAR, AH_NEWTON, HF_NEWTON} <= set(methods):
        return None
    goals = _paper_goals(dataset, methods) if regime == "paper" else _converged_goals(dataset, methods)
    return verdicts(f"{dataset}, {regime} regime", goals)


def _paper_goals(dataset: str, methods: Methods) -> Iterator[Verdict]:
    yield from _quality(methods, AH_NEWTON)
    for goal in _quality(methods, HF_NEWTON):
        yield _nothing(goal) if _same_pass(methods) else goal
    yield _agreement(methods)
    yield from _beside_warm_start(methods)
    for name, wanted in zip((AH_NEWTON, HF_NEWTON), SPEED_UPS[dataset], strict=True):
        yield _at_least(methods, f"{name}: speed-up over Retrain", name, wanted, "speed_up", digits=2)
    yield from _over_the_fastest(methods, SPEED_UPS[dataset][0])
    if WARM_START in methods:
        yield _above(methods, f"{HF_NEWTON} faster than Warm-Start", HF_NEWTON, WARM_START, "speed_up")
    for measure, text in ACCURACY:
        yield _as_the_paper(dataset, methods, measure, text)


def _quality(methods: Methods, name: str) -> Iterator[Verdict]:
    """How a method is to agree with Retrain, and how accurate it is to be."""
    for k in KS:
        yield _above(methods, f"{name}: RBO@{k}", name, RETRAIN_STAR, "rbo", k, strictly=False)
    yield _near(methods, f"{name}: Re-predict", name, 0.02, "re_predict")
    for measure, text in ACCURACY:
        wanted = mean_of(methods[RETRAIN], measure, "10") - 0.01
        shown = f"{RETRAIN} − 0.01"
        yield _at_least(methods, f"{name}: {text}", name, wanted, measure, "10", digits=4, shown=shown)
    yield _above(methods, f"{name}: NDCG@10", name, ORIGINAL, "ndcg", "10")


def _converged_goals(dataset: str, methods: Methods) -> Iterator[Verdict]:
    for name in (AH_NEWTON, HF_NEWTON):
        wanted = min(mean_of(methods[RETRAIN_STAR], "rbo", "10"), 0.99)
        text, shown = f"{name}: RBO@10", f"min of {RETRAIN_STAR}, 0.99"
        yield _at_least(methods, text, name, wanted, "rbo", "10", digits=4, shown=shown)
        yield _near(methods, f"{name}: Re-predict", name, 0.005, "re_predict")
        for measure, text in ACCURACY:
            retrain, star = (mean_of(methods[m], measure, "10") for m in (RETRAIN, RETRAIN_STAR))
            yield _near(methods, f"{name}: {text}", name, max(0.005, abs(star - retrain)), measure, "10")
    yield from _over_the_fastest(methods, CONVERGED_SPEED_UPS[dataset])
    for rival, over in (
        (SAME_LOSS_PASSES, "accelerated ALS"),
        (SAME_LOSS_NEWTON, "accelerated ALS that ends with joint Newton steps"),
        (SAME_LOSS_CG, "accelerated ALS by conjugate gradients"),
    ):
        if rival in methods:
            yield _over_one(methods, rival, over, CONVERGED_SPEED_UPS[dataset])


def _figure(records: Sequence[Record], digits: int, *path: str) -> str:
    """A mean, and the median beside it."""
    return f"{mean_of(records, *path):.{digits}f} (median {median_of(records, *path):.{digits}f})"


def _at_least(
    methods: Methods, what: str, name: str, wanted: float, *path: str, digits: int, shown: str = ""
) -> Verdict:
    limit = f"≥ {wanted:.{digits}f} ({shown})" if shown else f"≥ {wanted:g}"
    return Verdict(
        what, limit, _figure(methods[name], digits, *path), mean_of(methods[name], *path) >= wanted
    )


def _above(methods: Methods, what: str, name: str, other: str, *path: str, strictly: bool = True) -> Verdict:
    """Whether the mean of a method is above another's; where the medians say otherwise, so does the row."""
    digits = 2 if path == ("speed_up",) else 4
    sides = [[of(methods[m], *path) for m in (name, other)] for of in (mean_of, median_of)]
    by_means, by_medians = (ours > theirs if strictly else ours >= theirs for ours, theirs in sides)
    measured = _figure(methods[name], digits, *path)
    if by_means != by_medians:
        measured += "; by medians the other way"
    wanted = f"{'>' if strictly else '≥'} {_figure(methods[other], digits, *path)}, {other}"
    return Verdict(what, wanted, measured, by_means)


def _near(methods: Methods, what: str, name: str, allowed: float, *path: str) -> Verdict:
    means, medians = (
        abs(of(methods[name], *path) - of(methods[RETRAIN], *path)) for of in (mean_of, median_of)
    )
    measured = f"{means:.4f} apart (medians {medians:.4f})"
    return Verdict(what, f"within {allowed:.4f} of Retrain's", measured, means <= allowed)


def _nothing(goal: Verdict) -> Verdict:
    """A goal of HF-Newton where it did what AH-Newton did."""
    return Verdict(
        goal.what, goal.wanted, f"{goal.measured}, the same pass as AH-Newton's", None, SAYS_NOTHING
    )


def _passes_began(methods: Methods) -> list[bool]:
    """Of each run, whether either solver made a pass over all after the forgetting pass."""
    pairs = zip(methods[AH_NEWTON], methods[HF_NEWTON], strict=True)
    return [max(ours.get("passes", math.inf) for ours in pair) > 1 for pair in pairs]


def _same_pass(methods: Methods) -> bool:
    """Whether in all runs both solvers are one forgetting pass, which both solve to the same rows."""
    return not any(_passes_began(methods))


def _agreement(methods: Methods) -> Verdict:
    """Whether both solvers agree, over the runs in which either had passes to differ by."""
    began = _passes_began(methods)
    what, wanted = "AH and HF agree in RBO@10", "≤ 0.005 apart"
    if not any(began):
        return Verdict(what, wanted, "no pass began in any run", None, SAYS_NOTHING)
    sides = [
        [record for record, told in zip(methods[name], began, strict=True) if told]
        for name in (AH_NEWTON, HF_NEWTON)
    ]
    means, medians = (
        abs(of(sides[0], "rbo", "10") - of(sides[1], "rbo", "10")) for of in (mean_of, median_of)
    )
    over = "" if all(began) else f", over the {sum(began)} of {len(began)} runs in which passes began"
    return Verdict(what, wanted, f"{means:.4f} (medians {medians:.4f}){over}", means <= 0.005)


def _beside_warm_start(methods: Methods) -> Iterator[Verdict]:
    """Whether AltEraser agrees with Retrain as well as the way that needs nothing of ours."""
    for name in (AH_NEWTON, DEFAULT):
        if name in methods and WARM_START in methods:
            goal = _above(methods, f"{name}: RBO@10 beside Warm-Start's", name, WARM_START, "rbo", "10")
            told = higher_in(methods[name], methods[WARM_START])
            yield Verdict(goal.what, goal.wanted, f"{goal.measured}; {told}", goal.reached)


def higher_in(ours: Sequence[Record], theirs: Sequence[Record]) -> str:
    """In how many runs the RBO@10 of either of two methods is the higher one."""
    pairs = list(zip(values_of(ours, "rbo", "10"), values_of(theirs, "rbo", "10"), strict=True))
    first, second = sum(a > b for a, b in pairs), sum(b > a for a, b in pairs)
    return f"higher in {first} of {len(pairs)} runs, Warm-Start's in {second}"


def _over_the_fastest(methods: Methods, wanted: float) -> Iterator[Verdict]:
    """The speed-up that counts for whoever could retrain instead."""
    for name in (AH_NEWTON, DEFAULT):
        what, limit = f"{name}: speed-up over the fastest retraining to its loss", f"≥ {wanted:g}"
        if name not in methods:
            continue
        found = OverFastest.of(methods, name)
        if found is None:
            yield Verdict.missing(what, limit)
        elif there := found.reached:
            measured = f"{statistics.mean(there):.2f} (median {statistics.median(there):.2f}), {counted(found.rivals)}"
            yield Verdict(what, limit, measured, statistics.mean(there) >= wanted)
        else:
            yield Verdict(what, limit, "no retraining got there", None, SAYS_NOTHING)


def _over_one(methods: Methods, rival: str, over: str, wanted: float) -> Verdict:
    what = f"{AH_NEWTON}: speed-up over {over}, to the same loss"
    goal = _at_least(methods, what, AH_NEWTON, wanted, SAME_LOSS[rival], digits=1)
    pairs = zip(methods[rival], methods[AH_NEWTON], strict=True)
    there = sum(reaches(theirs["loss"], ours["loss"]) for theirs, ours in pairs)
    note = "" if there == len(methods[rival]) else f" (retraining got there in {there} runs)"
    return Verdict(goal.what, goal.wanted, f"{goal.measured}{note}", goal.reached)


def _as_the_paper(dataset: str, methods: Methods, measure: str, text: str) -> Verdict:
    values = values_of(methods[RETRAIN], measure, "10")
    published = paper()["accuracy"][dataset][RETRAIN][f"{measure}@10"]
    half = 1.96 * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    everyone = statistics.mean(_over_everyone(record, measure) for record in methods[RETRAIN])
    middle = statistics.median(values)
    shown = f"{statistics.mean(values):.4f} ± {half:.4f} (median {middle:.4f}; all users: {everyone:.4f})"
    wanted = f"≥ {published} (paper), or inside the 95 % interval"
    return Verdict(f"Retrain: {text}", wanted, shown, statistics.mean(values) + half >= published)


def _over_everyone(record: Record, measure: str) -> float:
    """The mean over forgetting and other users."""
    counts = record["n_users"]
    total = counts[FORGETTING] * record[measure]["10"]
    if record["others"]:
        total += counts[OTHERS] * record["others"][measure]["10"]
    return float(total / sum(counts.values()))
