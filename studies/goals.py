"""What the evaluation set out to reach, computed from the results: wanted, measured, reached or not.

Verdicts are on means over the runs, as the paper's figures are; beside every mean stands the median, and where medians
say otherwise the row says so. What a method reaches where it ended with the forgetting pass says nothing: all solvers
solve that pass to the same rows.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

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
from studies.tables import NONE_THERE, OverFastest, Record, grouped, mean_of, median_of, paper, values_of

KS = ("10", "20", "50")
SPEED_UPS = {"ml-1m": (50.0, 3.44), "kuairec-binary": (20.0, 4.40), "amazon-14core": (20.0, 1.55)}
CONVERGED_SPEED_UPS = {"ml-1m": 10.0, "kuairec-binary": 3.0, "amazon-14core": 3.0}
ACCURACY = (("recall", "Recall@10"), ("ndcg", "NDCG@10"))
Methods = Mapping[str, list[Record]]
Middle = Callable[..., float]
MIDDLES: tuple[Middle, Middle] = (mean_of, median_of)
"""What is judged by, and what stands beside it."""


def goals_table(records: Sequence[Record], dataset: str, regime: str) -> Table | None:
    """The goals of a data set and regime in the noise scenario; None without the runs."""
    methods = grouped(records).get((dataset, "noise", regime))
    if methods is None or not {RETRAIN, RETRAIN_STAR, AH_NEWTON, HF_NEWTON} <= set(methods):
        return None
    goals = _paper_goals(dataset, methods) if regime == "paper" else _converged_goals(dataset, methods)
    return verdicts(f"{dataset}, {regime} regime", goals)


def _paper_goals(dataset: str, methods: Methods) -> Iterator[Verdict]:
    for name in (AH_NEWTON, HF_NEWTON):
        yield from _with_passes(methods, name, partial(_quality, name=name))
    yield _agreement(methods)
    for name in (AH_NEWTON, DEFAULT):
        if name in methods and WARM_START in methods:
            yield from _with_passes(methods, name, partial(_beside_warm_start, name=name))
    for name, wanted in zip((AH_NEWTON, HF_NEWTON), SPEED_UPS[dataset], strict=True):
        yield from _with_passes(methods, name, partial(_over_retrain, name=name, wanted=wanted))
    yield from _over_the_fastest(methods, SPEED_UPS[dataset][0])
    if WARM_START in methods:
        yield from _with_passes(methods, HF_NEWTON, _faster_than_warm_start)
    for measure, text in ACCURACY:
        yield _as_the_paper(dataset, methods, measure, text)


def _quality(methods: Methods, name: str) -> Iterator[Verdict]:
    """How a method is to agree with Retrain, and how accurate it is to be."""
    for k in KS:
        yield _above(methods, f"{name}: RBO@{k}", name, RETRAIN_STAR, "rbo", k, strictly=False)
    yield _near(methods, f"{name}: Re-predict", name, lambda _: 0.02, "re_predict")
    for measure, text in ACCURACY:

        def wanted(middle: Middle, measure: str = measure) -> float:
            return middle(methods[RETRAIN], measure, "10") - 0.01

        shown = f"{RETRAIN} − 0.01"
        yield _at_least(methods, f"{name}: {text}", name, wanted, measure, "10", digits=4, shown=shown)
    yield _above(methods, f"{name}: NDCG@10", name, ORIGINAL, "ndcg", "10")


def _converged_goals(dataset: str, methods: Methods) -> Iterator[Verdict]:
    for name in (AH_NEWTON, HF_NEWTON):
        yield from _with_passes(methods, name, partial(_converged_quality, name=name))
    wanted = CONVERGED_SPEED_UPS[dataset]
    yield from _over_the_fastest(methods, wanted)
    for rival, over in (
        (SAME_LOSS_PASSES, "accelerated ALS"),
        (SAME_LOSS_NEWTON, "accelerated ALS that ends with joint Newton steps"),
        (SAME_LOSS_CG, "accelerated ALS by conjugate gradients"),
    ):
        if rival in methods:
            judge = partial(_over_one, rival=rival, over=over, wanted=wanted)
            yield from _with_passes(methods, AH_NEWTON, judge)


def _converged_quality(methods: Methods, name: str) -> Iterator[Verdict]:
    """How near a method is to come to Retrain where both end at their optimum."""

    def agreement(middle: Middle) -> float:
        return min(middle(methods[RETRAIN_STAR], "rbo", "10"), 0.99)

    text, shown = f"{name}: RBO@10", f"min of {RETRAIN_STAR}, 0.99"
    yield _at_least(methods, text, name, agreement, "rbo", "10", digits=4, shown=shown)
    yield _near(methods, f"{name}: Re-predict", name, lambda _: 0.005, "re_predict")
    for measure, text in ACCURACY:

        def allowed(middle: Middle, measure: str = measure) -> float:
            retrain, star = (middle(methods[m], measure, "10") for m in (RETRAIN, RETRAIN_STAR))
            return max(0.005, abs(star - retrain))

        yield _near(methods, f"{name}: {text}", name, allowed, measure, "10")


def _with_passes(
    methods: Methods, name: str, judge: Callable[[Methods], Iterable[Verdict]]
) -> Iterator[Verdict]:
    """The goals of a method: what it reaches where no pass began after the forgetting pass says nothing of its solver.

    A miss stays a miss. Where passes began in some of the runs, a goal has to be reached over those alone, too.
    """
    began = [_began(record) for record in methods[name]]
    if all(began):
        yield from judge(methods)
        return
    if not any(began):
        for goal in judge(methods):
            if goal.reached is not None:
                goal = replace(goal, measured=f"{goal.measured}; no pass began after the forgetting pass")
            yield replace(goal, reached=None, otherwise=SAYS_NOTHING) if goal.reached else goal
        return
    runs = {record.get("run") for record in methods[name] if _began(record)}
    alone = {other: [r for r in records if r.get("run") in runs] for other, records in methods.items()}
    for goal, of_these in zip(judge(methods), judge(alone), strict=True):
        beside = f"over the {sum(began)} of {len(began)} runs in which passes began {of_these.shown}"
        worse = of_these if goal.reached and not of_these.reached else goal
        told = replace(worse, wanted=goal.wanted, measured=f"{goal.shown}; {beside}", by_medians=None)
        yield goal if goal.reached is None else told


def _began(record: Record) -> bool:
    """Whether a pass began after the forgetting pass."""
    return bool(record.get("passes", math.inf) > 1)


def _figure(records: Sequence[Record], digits: int, *path: str) -> str:
    """A mean, and the median beside it."""
    return f"{mean_of(records, *path):.{digits}f} (median {median_of(records, *path):.{digits}f})"


def _at_least(
    methods: Methods,
    what: str,
    name: str,
    wanted: Callable[[Middle], float],
    *path: str,
    digits: int,
    shown: str = "",
) -> Verdict:
    """Whether a method has so much, by means and by medians."""
    by_means, by_medians = (middle(methods[name], *path) >= wanted(middle) for middle in MIDDLES)
    limit = f"≥ {wanted(mean_of):.{digits}f} ({shown})" if shown else f"≥ {wanted(mean_of):g}"
    return Verdict(what, limit, _figure(methods[name], digits, *path), by_means, by_medians=by_medians)


def _over_retrain(methods: Methods, name: str, wanted: float) -> Iterator[Verdict]:
    what = f"{name}: speed-up over Retrain"
    yield _at_least(methods, what, name, lambda _: wanted, "speed_up", digits=2)


def _faster_than_warm_start(methods: Methods) -> Iterator[Verdict]:
    yield _above(methods, f"{HF_NEWTON} faster than Warm-Start", HF_NEWTON, WARM_START, "speed_up")


def _above(methods: Methods, what: str, name: str, other: str, *path: str, strictly: bool = True) -> Verdict:
    """Whether a method is above another, by means and by medians."""
    digits = 2 if path == ("speed_up",) else 4
    sides = [[middle(methods[m], *path) for m in (name, other)] for middle in MIDDLES]
    by_means, by_medians = (ours > theirs if strictly else ours >= theirs for ours, theirs in sides)
    wanted = f"{'>' if strictly else '≥'} {_figure(methods[other], digits, *path)}, {other}"
    return Verdict(what, wanted, _figure(methods[name], digits, *path), by_means, by_medians=by_medians)


def _near(methods: Methods, what: str, name: str, allowed: Callable[[Middle], float], *path: str) -> Verdict:
    """Whether a method comes so near to Retrain, by means and by medians."""
    means, medians = (
        abs(middle(methods[name], *path) - middle(methods[RETRAIN], *path)) for middle in MIDDLES
    )
    return Verdict(
        what,
        f"within {allowed(mean_of):.4f} of Retrain's",
        f"{means:.4f} apart (medians {medians:.4f})",
        means <= allowed(mean_of),
        by_medians=medians <= allowed(median_of),
    )


def _agreement(methods: Methods) -> Verdict:
    """Whether both solvers agree, over the runs in which either had passes to differ by."""
    pairs = zip(methods[AH_NEWTON], methods[HF_NEWTON], strict=True)
    began = [any(map(_began, pair)) for pair in pairs]
    what, wanted = "AH and HF agree in RBO@10", "≤ 0.005 apart"
    if not any(began):
        return Verdict(what, wanted, "no pass began in any run", None, SAYS_NOTHING)
    sides = [
        [record for record, told in zip(methods[name], began, strict=True) if told]
        for name in (AH_NEWTON, HF_NEWTON)
    ]
    means, medians = (abs(of(sides[0], "rbo", "10") - of(sides[1], "rbo", "10")) for of in MIDDLES)
    over = "" if all(began) else f", over the {sum(began)} of {len(began)} runs in which passes began"
    measured = f"{means:.4f} (medians {medians:.4f}){over}"
    return Verdict(what, wanted, measured, means <= 0.005, by_medians=medians <= 0.005)


def _beside_warm_start(methods: Methods, name: str) -> Iterator[Verdict]:
    """Whether AltEraser agrees with Retrain as well as the way that needs nothing of ours."""
    goal = _above(methods, f"{name}: RBO@10 beside Warm-Start's", name, WARM_START, "rbo", "10")
    told = higher_in(methods[name], methods[WARM_START])
    yield replace(goal, measured=f"{goal.measured}; {told}")


def higher_in(ours: Sequence[Record], theirs: Sequence[Record]) -> str:
    """In how many runs the RBO@10 of either of two methods is the higher one."""
    pairs = list(zip(values_of(ours, "rbo", "10"), values_of(theirs, "rbo", "10"), strict=True))
    first, second = sum(a > b for a, b in pairs), sum(b > a for a, b in pairs)
    return f"higher in {first} of {len(pairs)} runs, Warm-Start's in {second}"


def _over_the_fastest(methods: Methods, wanted: float) -> Iterator[Verdict]:
    """The speed-up that counts for whoever could retrain instead."""
    for name in (AH_NEWTON, DEFAULT):
        if name in methods:
            yield from _with_passes(methods, name, partial(_over_fastest, name=name, wanted=wanted))


def _over_fastest(methods: Methods, name: str, wanted: float) -> Iterator[Verdict]:
    what = f"{name}: speed-up over the fastest retraining to its loss"
    found = OverFastest.of(methods, name)
    if found is None:
        yield Verdict.missing(what, f"≥ {wanted:g}")
    else:
        goal = _speed(what, found, wanted, digits=2)
        yield replace(goal, measured=f"{goal.measured}, {counted(found.rivals)}") if found.reached else goal


def _over_one(methods: Methods, rival: str, over: str, wanted: float) -> Iterator[Verdict]:
    """The same over one retraining, in the runs in which it got there."""
    pairs = list(zip(methods[rival], methods[AH_NEWTON], strict=True))
    there = [reaches(theirs["loss"], ours["loss"]) for theirs, ours in pairs]
    ratios = [
        ours[SAME_LOSS[rival]] if reached else math.nan
        for (_, ours), reached in zip(pairs, there, strict=True)
    ]
    found = OverFastest(ratios, [rival if reached else None for reached in there])
    yield _speed(f"{AH_NEWTON}: speed-up over {over}, to the same loss", found, wanted, digits=1)


def _speed(what: str, found: OverFastest, wanted: float, *, digits: int) -> Verdict:
    """The verdict on a speed-up, over the runs in which a retraining got there."""
    limit, measured = f"≥ {wanted:g}", found.told(digits=digits)
    if not found.reached:
        return Verdict(what, limit, "", None, NONE_THERE)
    by_means, by_medians = (of(found.reached) >= wanted for of in (statistics.mean, statistics.median))
    return Verdict(what, limit, measured, by_means, by_medians=by_medians)


def _as_the_paper(dataset: str, methods: Methods, measure: str, text: str) -> Verdict:
    values = values_of(methods[RETRAIN], measure, "10")
    published = paper()["accuracy"][dataset][RETRAIN][f"{measure}@10"]
    half = 1.96 * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    everyone = statistics.mean(_over_everyone(record, measure) for record in methods[RETRAIN])
    middle = statistics.median(values)
    shown = f"{statistics.mean(values):.4f} ± {half:.4f} (median {middle:.4f}; all users: {everyone:.4f})"
    wanted = f"≥ {published} (paper), or inside the 95 % interval"
    by_means, by_medians = (value + half >= published for value in (statistics.mean(values), middle))
    return Verdict(f"Retrain: {text}", wanted, shown, by_means, by_medians=by_medians)


def _over_everyone(record: Record, measure: str) -> float:
    """The mean over forgetting and other users."""
    counts = record["n_users"]
    total = counts[FORGETTING] * record[measure]["10"]
    if record["others"]:
        total += counts[OTHERS] * record["others"][measure]["10"]
    return float(total / sum(counts.values()))
