"""What the evaluation set out to reach, computed from the results: wanted, measured, reached or not."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from alteraser.measure.compare import FORGETTING, OTHERS
from alteraser.report.tables import Table
from evidence.page import Verdict, verdicts
from studies.methods import (
    AH_NEWTON,
    HF_NEWTON,
    ORIGINAL,
    RETRAIN,
    RETRAIN_STAR,
    SAME_LOSS,
    SAME_LOSS_NEWTON,
    SAME_LOSS_PASSES,
    WARM_START,
)
from studies.tables import Record, grouped, mean_of, paper

KS = ("10", "20", "50")
SPEED_UPS = {"ml-1m": (50.0, 3.44), "kuairec-binary": (20.0, 4.40), "amazon-14core": (20.0, 1.55)}
CONVERGED_SPEED_UPS = {"ml-1m": 10.0, "kuairec-binary": 3.0, "amazon-14core": 3.0}


def goals_table(records: Sequence[Record], dataset: str, regime: str) -> Table | None:
    """The goals of a data set and regime in the noise scenario; None without the runs."""
    methods = grouped(records).get((dataset, "noise", regime))
    if methods is None or not {RETRAIN, RETRAIN_STAR, AH_NEWTON, HF_NEWTON} <= set(methods):
        return None
    goals = _paper_goals(dataset, methods) if regime == "paper" else _converged_goals(dataset, methods)
    return verdicts(f"{dataset}, {regime} regime", goals)


Methods = Mapping[str, list[Record]]


def _mean(methods: Methods, method: str, *path: str) -> float:
    return mean_of(methods[method], *path)


def _paper_goals(dataset: str, methods: Methods) -> Iterator[Verdict]:
    for name in (AH_NEWTON, HF_NEWTON):
        for k in KS:
            wanted, measured = (_mean(methods, m, "rbo", k) for m in (RETRAIN_STAR, name))
            yield Verdict(
                f"{name}: RBO@{k}", f"≥ {wanted:.4f} (Retrain*)", f"{measured:.4f}", measured >= wanted
            )
        yield _near("Re-predict", methods, name, 0.02, "re_predict")
        for measure, text in (("recall", "Recall@10"), ("ndcg", "NDCG@10")):
            wanted, measured = (_mean(methods, m, measure, "10") for m in (RETRAIN, name))
            yield Verdict(
                f"{name}: {text}",
                f"≥ {wanted - 0.01:.4f} (Retrain − 0.01)",
                f"{measured:.4f}",
                measured >= wanted - 0.01,
            )
        wanted, measured = (_mean(methods, m, "ndcg", "10") for m in (ORIGINAL, name))
        yield Verdict(f"{name}: NDCG@10", f"> {wanted:.4f} (Original)", f"{measured:.4f}", measured > wanted)
    apart = abs(_mean(methods, AH_NEWTON, "rbo", "10") - _mean(methods, HF_NEWTON, "rbo", "10"))
    yield Verdict("AH and HF agree in RBO@10", "≤ 0.005 apart", f"{apart:.4f}", apart <= 0.005)
    ah, hf = (_mean(methods, name, "speed_up") for name in (AH_NEWTON, HF_NEWTON))
    yield Verdict(
        f"{AH_NEWTON}: speed-up", f"≥ {SPEED_UPS[dataset][0]:g}", f"{ah:.1f}", ah >= SPEED_UPS[dataset][0]
    )
    yield Verdict(
        f"{HF_NEWTON}: speed-up", f"≥ {SPEED_UPS[dataset][1]:g}", f"{hf:.2f}", hf >= SPEED_UPS[dataset][1]
    )
    warm = _mean(methods, WARM_START, "speed_up")
    yield Verdict(f"{HF_NEWTON} faster than Warm-Start", f"> {warm:.2f}", f"{hf:.2f}", hf > warm)
    for measure, text in (("recall", "Recall@10"), ("ndcg", "NDCG@10")):
        values = [float(record[measure]["10"]) for record in methods[RETRAIN]]
        published = paper()["accuracy"][dataset][RETRAIN][f"{measure}@10"]
        half = 1.96 * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
        reached = statistics.mean(values) + half >= published
        everyone = statistics.mean(_over_everyone(record, measure) for record in methods[RETRAIN])
        shown = f"{statistics.mean(values):.4f} ± {half:.4f} (all users: {everyone:.4f})"
        yield Verdict(
            f"Retrain: {text}", f"≥ {published} (paper), or inside the 95 % interval", shown, reached
        )


def _converged_goals(dataset: str, methods: Methods) -> Iterator[Verdict]:
    for name in (AH_NEWTON, HF_NEWTON):
        wanted, measured = (
            min(_mean(methods, RETRAIN_STAR, "rbo", "10"), 0.99),
            _mean(methods, name, "rbo", "10"),
        )
        yield Verdict(
            f"{name}: RBO@10",
            f"≥ {wanted:.4f} (min of Retrain*, 0.99)",
            f"{measured:.4f}",
            measured >= wanted,
        )
        yield _near("Re-predict", methods, name, 0.005, "re_predict")
        for measure, text in (("recall", "Recall@10"), ("ndcg", "NDCG@10")):
            retrain, star = (_mean(methods, m, measure, "10") for m in (RETRAIN, RETRAIN_STAR))
            yield _near(text, methods, name, max(0.005, abs(star - retrain)), measure, "10")
    wanted = CONVERGED_SPEED_UPS[dataset]
    for rival, over in (
        (SAME_LOSS_PASSES, "accelerated ALS"),
        (SAME_LOSS_NEWTON, "accelerated ALS that ends with joint Newton steps"),
    ):
        if rival in methods:
            ah = _mean(methods, AH_NEWTON, SAME_LOSS[rival])
            pairs = zip(methods[rival], methods[AH_NEWTON], strict=True)
            there = sum(theirs["loss"] <= ours["loss"] * (1 + 1e-9) for theirs, ours in pairs)
            note = "" if there == len(methods[rival]) else f" (retraining got there in {there} runs)"
            yield Verdict(
                f"{AH_NEWTON}: speed-up over {over}, to the same loss",
                f"≥ {wanted:g}",
                f"{ah:.1f}{note}",
                ah >= wanted,
            )


def _over_everyone(record: Record, measure: str) -> float:
    """The mean over forgetting and other users."""
    counts = record["n_users"]
    total = counts[FORGETTING] * record[measure]["10"]
    if record["others"]:
        total += counts[OTHERS] * record["others"][measure]["10"]
    return float(total / sum(counts.values()))


def _near(text: str, methods: Methods, name: str, allowed: float, *path: str) -> Verdict:
    apart = abs(_mean(methods, name, *path) - _mean(methods, RETRAIN, *path))
    return Verdict(
        f"{name}: {text}", f"within {allowed:.4f} of Retrain's", f"{apart:.4f} apart", apart <= allowed
    )
