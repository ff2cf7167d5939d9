"""The sections on forgetting, as docs/benchmarks.md shows them."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.requests import speed_ups
from benchmarks.unlearning import OURS
from evidence.page import UNKNOWN, Verdict, table, verdict, verdicts
from studies.retrainings import TRAINERS, counted


def requests(result: dict[str, Any]) -> list[str]:
    found, limits = result["summary"], result["limits"]
    names = {
        "p50_ms": ("median time, ms", ".1f", False),
        "gap_left": ("mean share left of the loss gap that the deletion opened", ".4f", False),
        "rbo": ("RBO@10 of that user's list with the reference, mean", ".4f", True),
        "speed_up": ("times faster than the fastest retraining to the same loss", ",.0f", True),
        "own_gap": ("the original's own gap over that of a median request", ".5f", False),
    }
    reached = [
        Verdict.by_limit(
            text,
            found[key],
            limits[key],
            form=form,
            at_least=at_least,
            median=statistics.median(each[key] for each in result["requests"]) if "mean" in text else None,
        )
        for key, (text, form, at_least) in names.items()
    ]
    if not all("rival" in each for each in result["retraining_seconds"]):
        reached[3] = _over_a_slower_one(reached[3])
    again = [each for each in result["requests"] if "rbo_retrained" in each]
    retraining = [each["same_loss"] for each in result["retraining_seconds"]]
    rounds = speed_ups(result["seconds"], retraining)
    beside = (
        f"Times are those of the requests one after another in one live model, in {len(result['retraining_seconds'])} "
        f"rounds with a retraining before each; a speed is the median over the rounds, which lie between "
        f"{min(rounds):,.0f} and {max(rounds):,.0f}: a retraining takes {min(retraining):.1f} to "
        f"{max(retraining):.1f} s, by its start and the user's request. Beside them: 99 % took at most "
        f"{found['p99_ms']:.1f} ms; each in a live model just opened, the median is "
        f"{found['p50_ms_new_session']:.1f} ms; retraining that stops by ALS's default rule, at a loss above the "
        f"unlearned model's, takes {found['speed_up_default']:,.0f} times as long; the worst request left "
        f"{found['gap_left_worst']:.3f} of its gap; the original's own lists agree with the reference to "
        f"{found['rbo_original']:.4f}."
    )
    beside += _rivals(result["retraining_seconds"])
    if again:
        ours, theirs = (
            statistics.mean(each[key] for each in again) for key in ("rbo_retrained", "rbo_of_two_retrained")
        )
        beside += (
            f" For {len(again)} of the requests two models were trained from scratch: the unlearned list agrees with "
            f"the first's to {ours:.4f}, theirs with each other to {theirs:.4f}."
        )
    how = (
        f"{len(result['requests'])} random users of ml-1m, each deleting a random half of the history, all from one "
        f"original in one live model (`LiveModel`, default settings). The reference is the optimum on what remains, "
        f"reached from the unlearned model by joint Newton steps in double precision."
    )
    return [
        "## One user's request",
        how,
        verdicts("", reached).markdown(),
        beside,
        *_estimates(result["requests"]),
    ]


def _over_a_slower_one(measured: Verdict) -> Verdict:
    """What was measured before the fastest retraining was known says nothing of it."""
    shown = f"{measured.measured} over joint Newton steps or exact ALS, whichever was quicker"
    return Verdict(measured.what, measured.wanted, shown, None)


def _rivals(retraining: list[dict[str, Any]]) -> str:
    """Which retrainings were the fastest, and whether they got to the loss."""
    if not all("rival" in each for each in retraining):
        return ""
    there = sum(each["reached"] for each in retraining)
    return (
        f" The fastest retraining is {counted([each['rival'] for each in retraining])}, of {', '.join(TRAINERS)}; it "
        f"got to the loss in {there} of {len(retraining)} rounds."
    )


def _estimates(requests: list[dict[str, Any]]) -> list[str]:
    """How near the estimate of the gap that is left comes to the truth."""
    ratios = sorted(
        each["gap_left_estimated"] / each["gap_left"] for each in requests if each["gap_left"] > 0
    )
    shares = (0.05, 0.25, 0.5, 0.75, 0.95)
    cells = tuple(f"{ratios[int(share * (len(ratios) - 1))]:.2f}" for share in shares)
    return [
        "The estimate of the gap that is left, over the true one:",
        table(tuple(f"{share:.0%} of requests below" for share in shares), (cells,)),
    ]


def batches(result: dict[str, Any]) -> list[str]:
    limits = result["limits"]
    rows = [
        (
            each["dataset"],
            f"{statistics.median(each['seconds']['affected']):.3f}",
            f"{statistics.median(each['seconds']['all']):.3f}",
            f"{each['ratio']:.2f}",
            verdict(each["ratio"], limits["ratio"]),
            f"{each['rbo']['original']:.4f}",
            *(_with_median(each, scope) for scope in ("affected", "all")),
            _agreement(each, limits["rbo_below"]),
            f"{each['loss']['affected'] - each['loss']['retrained']:.3f}",
            f"{each['loss']['all'] - each['loss']['retrained']:.3f}",
            *(_against_retraining(each, scope) for scope in ("affected", "all")),
        )
        for each in result["figures"]
    ]
    columns = (
        "data set",
        "affected, s",
        "all, s",
        "ratio",
        f"at most {limits['ratio']:g}",
        "RBO@10, original",
        "affected",
        "all",
        f"within {limits['rbo_below']:g}",
        "loss above Retrain, affected",
        "all",
        "fastest retraining to its loss, times affected",
        "times all",
    )
    how = (
        '64 random users each delete half of their history; `AltEraser(scope="affected")` against '
        '`AltEraser(scope="all")`, both with their defaults, from one original at its optimum; the seconds are those '
        "that an outcome tells, matching and indexing included. RBO is with a model retrained to the optimum: the mean "
        "over the forgetting users, in brackets the median. The fastest retraining to a loss is the quickest of "
        f"{', '.join(TRAINERS)}."
    )
    return ["## 64 users at once", how, table(columns, rows)]


def _with_median(figure: dict[str, Any], scope: str) -> str:
    median = figure.get("rbo_median", {}).get(scope)
    return f"{figure['rbo'][scope]:.4f}" + ("" if median is None else f" ({median:.4f})")


def _agreement(figure: dict[str, Any], limit: float) -> str:
    """The verdict on how far the affected rows agree less than all; where medians say otherwise, so does the cell."""
    mean, *median = (
        figure[rbo]["all"] - figure[rbo]["affected"] for rbo in ("rbo", "rbo_median") if rbo in figure
    )
    found = Verdict.by_limit("RBO@10", mean, limit, median=median[0] if median else None)
    return found.said + found.aside


def _against_retraining(figure: dict[str, Any], scope: str) -> str:
    """The fastest retraining's seconds over those of a scope."""
    if "retraining" not in figure:
        return UNKNOWN
    rival = figure["retraining"][scope]
    text = f"{rival['seconds'] / statistics.median(figure['seconds'][scope]):.1f} ({rival['rival']})"
    return text if rival["reached"] else f"{text}, which did not get there"


def unlearning(result: dict[str, Any]) -> list[str]:
    how = (
        f"ml-1m, d = 64, one objective, matrix, start and number of threads for all; medians of {result['rounds']} "
        f"runs. The loss is that on the remaining data, above its optimum; RBO@10 is with the optimum's lists, over "
        f"the users concerned. implicit retrains with its default of 15 iterations of conjugate gradients; its "
        f"partial fit takes the users concerned, then the items, with its matrices at hand. AdamW has the learning "
        f"rate, out of four, that leads to the lowest loss on the request at hand."
    )
    parts = ["## Unlearning beside what people do today", how]
    for case in result["figures"]:
        ours = next(way for way in case["ways"] if way["way"] == OURS)
        base = statistics.median(ours["seconds"])
        rows = [
            (
                way["way"],
                f"{statistics.median(way['seconds']):.4f}" if way["way"] != "original" else "",
                f"{statistics.median(way['seconds']) / base:.2f}" if way["way"] != "original" else "",
                f"{way['loss_above']:.3f}",
                f"{way['rbo']:.4f}",
            )
            for way in case["ways"]
        ]
        columns = ("way", "seconds", "times the default", "loss above the optimum", "RBO@10")
        users = "1 user" if case["users"] == 1 else f"{case['users']:,} users"
        title = f"### {case['request'].capitalize()}: {case['deleted']:,} interactions of {users}"
        parts += [title, table(columns, rows), _fastest(case.get("retraining"), base)]
    return parts


def _fastest(rival: dict[str, Any] | None, base: float) -> str:
    """How the fastest retraining to the loss of our way compares with it."""
    if rival is None:
        return f"The fastest retraining to the loss of `{OURS}`: {UNKNOWN}."
    there = "" if rival["reached"] else ", though it did not get there"
    return (
        f"The fastest retraining to the loss of `{OURS}` is {rival['rival']}, in "
        f"{rival['seconds']:.3f} s: {rival['seconds'] / base:.2f} times as long{there}."
    )


def partial_fit(result: dict[str, Any]) -> list[str]:
    end, ours, theirs = (
        result["losses"][-1],
        *(statistics.median(result[key]) for key in ("ours_ms", "theirs_ms")),
    )
    no_higher = sum(each["ours_above"] <= each["theirs_above"] for each in result["losses"])
    found = [
        Verdict.by_limit("our time over implicit's, median over the users", result["ratio"], result["limit"]),
        Verdict(
            "moments at which our loss is no higher",
            "all",
            f"{no_higher} of {len(result['losses'])}",
            no_higher == len(result["losses"]),
        ),
    ]
    how = (
        f"{result['users']} users of {result['dataset']} in turn delete half of their history, in a live model and by "
        f"implicit's `partial_fit_users` and `partial_fit_items` of the users and items concerned, on implicit's "
        f"objective and from its optimum, {result['threads']} threads each. implicit's matrices are at hand when its "
        f"clock starts; ours includes finding what is asked for. Medians: {ours:.1f} ms and {theirs:.1f} ms; the sums "
        f"of all times are to each other as {result['ratio_of_sums']:.2f}. In the end our loss is "
        f"{end['ours_above']:.2f} above the optimum of what remains, implicit's {end['theirs_above']:.2f}."
    )
    return ["## One user beside implicit's partial fit", how, verdicts("", found).markdown()]
