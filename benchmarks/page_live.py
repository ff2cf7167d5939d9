"""The sections on live models over many changes, as docs/benchmarks.md shows them."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from benchmarks.mixed import DRIFT_LIMIT
from evidence.page import Verdict, table, verdict, verdicts


def sequence(result: dict[str, Any]) -> list[str]:
    found, limits = result["summary"], result["limits"]
    names = {
        "last_over_first": ("time of the last tenth of the requests over that of the first", ".2f"),
        "memory_growth": ("memory at the end over that after a tenth of the requests", ".3f"),
        "largest_drift": ("largest drift as the live model estimates it, as a share of the loss", ".2e"),
        "largest_true_drift": ("largest true drift at the moments below, as a share of the loss", ".2e"),
    }
    reached = [
        Verdict.by_limit(text, found[key], limits[key], form=form) for key, (text, form) in names.items()
    ]
    how = (
        f"{result['requests']:,} users of generated data ({result['interactions']:,} interactions), each deleting half "
        f"of the history, one after another in one live model; {found['clean_ups']} times the drift passed its limit "
        f"and all rows were visited. Median {found['p50_ms']:.1f} ms, 99 % within {found['p99_ms']:.1f} ms."
    )
    parts = ["## A long sequence", how, verdicts("", reached).markdown()]
    return parts + _moments(result)


def _moments(result: dict[str, Any]) -> list[str]:
    """The true drift beside the estimate."""
    moments = result["moments"]
    how = (
        f"The true drift is the loss above that of the optimum next to the model, in double precision; the original's "
        f"own gap is part of it. {_lowest(result)} One moment of each of {len(moments) - 1} equal parts of the "
        f"sequence: the first at which the estimate of the timed run is above {result['moments_above']:g} of the limit "
        f"or, where it never is, that of the part's highest estimate:"
    )
    rows = [
        (f"{each['after']:,}", f"{each['true']:.2e}", f"{each['estimate']:.2e}" if each["after"] else "")
        for each in moments
    ]
    return [how, table(("after so many requests", "true drift", "estimated"), rows)]


def _lowest(result: dict[str, Any]) -> str:
    """How the true gap is found."""
    return (
        "Both losses are computed by a formula that shares no code with the package. The optimum is found by the "
        f"package; that it is one is checked by the formula: at most {result['gradient_left']:g} of the model's "
        "gradient is left there."
    )


def learning(result: dict[str, Any]) -> list[str]:
    limits = result["limits"]
    rows = [
        (
            each["dataset"],
            of["kind"],
            f"{statistics.median(of['passes']):.3f}",
            f"{limits[of['kind']]:g}",
            verdict(statistics.median(of["passes"]), limits[of["kind"]]),
            f"{float(np.percentile(of['passes'], 99)):.3f}",
            f"{statistics.median(of['passes']) * of['pass_ms']:.1f}",
        )
        for each in result["figures"]
        for of in each["kinds"]
    ]
    columns = ("data set", "learned", "p50, T", "wanted at most", "reached", "p99, T", "p50, ms")
    how = (
        "A live model of what `alteraser train` leaves, with 64 dimensions; what it has learned it forgets again "
        "before the next change. T is one exact pass over all rows on the same threads in the same run. Users and "
        "items are drawn as they come in the events, so that most are active and popular ones."
    )
    return ["## Learning", how, table(columns, rows)]


def mixed(result: dict[str, Any]) -> list[str]:
    names = {
        "rbo": ("RBO@10 with a model trained anew to its optimum, over 1,000 random users, mean", ".4f"),
        "gap_over_limit": ("the true gap over the limit of drift, largest of 20 moments", ".2f"),
        "last_over_first": ("time of the last thousand over that of the first", ".2f"),
        "memory": ("memory over that of a live model opened on the final data", ".3f"),
        "scores_moved": ("how far what is learned and then forgotten moves scores, relative", ".1e"),
        "scores_moved_clean": ("the same after a clean-up", ".1e"),
    }
    parts = ["## Mixed changes"]
    for each in result["figures"]:
        found = [
            Verdict.by_limit(
                text,
                each[key],
                result["limits"][key],
                form=form,
                at_least=key == "rbo",
                median=each.get(f"{key}_median"),
            )
            for key, (text, form) in names.items()
        ]
        p50 = ", ".join(f"{kind} {ms:.1f} ms" for kind, ms in each["p50_ms_by_kind"].items())
        how = (
            f"{result['changes']:,} changes, one after another, of which 60 % learn up to 20 events and 40 % forget, "
            f"one in ten a whole account and one in a hundred an item, on {each['dataset']} ({each['interactions']:,} "
            f"interactions at the beginning). Medians: {p50}; the worst took {each['worst_ms']:.0f} ms; "
            f"{each['clean_ups']} clean-ups. By medians the last thousand took {each['medians']:.2f} times as long as "
            f"the first."
        )
        how += f" The true gap is the loss above that of the optimum next to the model. {_lowest(result)}"
        if "mean_ms" in each:
            how += f" Clean-ups included, a change took {each['mean_ms']:.1f} ms on average."
        if "rbo_of_two_retrained" in each:
            how += (
                f" The lists of two models trained anew have an RBO@10 of {each['rbo_of_two_retrained']:.4f}."
            )
        limit = each.get("drift_limit", DRIFT_LIMIT)
        title = f"### {each['dataset']}" + (
            "" if limit == DRIFT_LIMIT else f", with a drift limit of {limit:g}"
        )
        parts += [title, how, verdicts("", found).markdown()]
    return parts
