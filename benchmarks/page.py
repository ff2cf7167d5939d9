"""docs/benchmarks.md from the result files; figures are never typed."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from alteraser.report.plots import panels
from benchmarks.requests import speed_ups
from evidence.page import Page, Verdict, measured_at, table, verdict, verdicts
from evidence.store import Store

RESULTS = Path(__file__).parent / "results"
INTRODUCTION = (
    "Made from `benchmarks/results/` by `make bench-page`; measured by `make bench` (one of them: `python -m "
    "benchmarks NAME`). Speeds are ratios of things measured in turn in one run, medians over the rounds; a single "
    "number of seconds says more about the machine than about the software."
)
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
PLOT = Path("images") / "scaling.svg"


def write(store: Store, path: Path = PAGE) -> None:
    """Writes the page, made of what `python -m benchmarks` measured last."""
    page = Page(path)
    page.add("# Benchmarks", INTRODUCTION)
    for name, section in SECTIONS.items():
        if store.has(name):
            result = store.read(name)
            title, *rest = section(result)
            page.add(title, measured_at([result]), *rest)
            if name == "scaling":
                page.plot(path.parent / PLOT, _scaling_plot(result["figures"]), "Scaling")
    page.write()


def _passes(result: dict[str, Any]) -> list[str]:
    kinds = {"exact": "exact, against Cholesky", "cg": "conjugate gradients, against 3 steps of them"}
    rows = [
        (
            kinds[each["kind"]],
            str(each["dim"]),
            f"{statistics.median(each['seconds']['alteraser']):.3f}",
            f"{statistics.median(each['seconds']['implicit']):.3f}",
            f"{each['ratio']:.2f}",
            f"{each['limit']:.2f}",
            verdict(each["ratio"], each["limit"]),
            f"{each['loss']['alteraser'][-1]:.1f}",
            f"{each['loss']['implicit'][-1]:.1f}",
            f"{each['rate']:.0%}" if "rate" in each else "",
            verdict(each["rate"], each["rate_limit"], at_least=True) if "rate" in each else "",
        )
        for each in result["figures"]
    ]
    rate_limits = {f"{each['rate_limit']:.0%}" for each in result["figures"] if "rate" in each}
    columns = (
        "pass",
        "d",
        "alteraser, s",
        "implicit, s",
        "ratio",
        "wanted at most",
        "reached",
        "our loss, 5 passes",
        "implicit's loss",
        "rate of a matrix product",
        f"at least {' or '.join(sorted(rate_limits))}",
    )
    how = (
        f"Against one iteration of implicit on the same matrix and objective (w0 = 1/alpha, l2 = "
        f"regularization/alpha, plain L2), from the same factors, {result['threads']} threads each. Both losses are "
        f"computed by the same function after five passes; a pass of conjugate gradients is timed from the model after "
        f"the first pass, where it has most to do. The rate counts 2·nnz·d² per side + rows·d³/3 operations against "
        f"those of a product of two matrices of 3,000 × 3,000 numbers in single precision on the same threads in the "
        f"same run."
    )
    return ["## One pass over all rows of ml-1m", how, table(columns, rows)]


def _requests(result: dict[str, Any]) -> list[str]:
    found, limits = result["summary"], result["limits"]
    names = {
        "p50_ms": ("median time, ms", ".1f", False),
        "gap_left": ("mean share left of the loss gap that the deletion opened", ".4f", False),
        "rbo": ("RBO@10 of that user's list with the reference, mean", ".4f", True),
        "speed_up": ("times faster than retraining by accelerated ALS to the same loss", ",.0f", True),
        "own_gap": ("the original's own gap over that of a median request", ".5f", False),
    }
    reached = [
        Verdict.by_limit(text, found[key], limits[key], form=form, at_least=at_least)
        for key, (text, form, at_least) in names.items()
    ]
    again = [each for each in result["requests"] if "rbo_retrained" in each]
    retraining = [each["same_loss"] for each in result["retraining_seconds"]]
    rounds = speed_ups(result["seconds"], retraining)
    beside = (
        f"Times are those of the requests one after another in one session, in {len(result['retraining_seconds'])} "
        f"rounds with a retraining before each; a speed is the median over the rounds, which lie between "
        f"{min(rounds):,.0f} and {max(rounds):,.0f}: a retraining takes {min(retraining):.1f} to "
        f"{max(retraining):.1f} s, by its start and the user's request. Beside them: 99 % took at most "
        f"{found['p99_ms']:.1f} ms; each in a session just opened, the median is {found['p50_ms_new_session']:.1f} ms; "
        f"retraining that stops by ALS's default rule, at a loss above the unlearned model's, takes "
        f"{found['speed_up_default']:,.0f} times as long; the worst request left "
        f"{found['gap_left_worst']:.3f} of its gap; the original's own lists agree with the reference to "
        f"{found['rbo_original']:.4f}."
    )
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
        f"original in an open session (`Eraser`, default settings). The reference is the optimum on what remains, "
        f"reached from the unlearned model by joint Newton steps in double precision."
    )
    return [
        "## One user's request",
        how,
        verdicts("", reached).markdown(),
        beside,
        *_estimates(result["requests"]),
    ]


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


def _batches(result: dict[str, Any]) -> list[str]:
    limits = result["limits"]
    rows = [
        (
            each["dataset"],
            f"{statistics.median(each['seconds']['affected']):.3f}",
            f"{statistics.median(each['seconds']['all']):.3f}",
            f"{each['ratio']:.2f}",
            verdict(each["ratio"], limits["ratio"]),
            f"{each['rbo']['original']:.4f}",
            f"{each['rbo']['affected']:.4f}",
            f"{each['rbo']['all']:.4f}",
            verdict(each["rbo"]["all"] - each["rbo"]["affected"], limits["rbo_below"]),
            f"{each['loss']['affected'] - each['loss']['retrained']:.3f}",
            f"{each['loss']['all'] - each['loss']['retrained']:.3f}",
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
    )
    how = (
        '64 random users each delete half of their history; `AltEraser(scope="affected")` against `AltEraser()`, both '
        "with their defaults, from one original at its optimum; the seconds are those that an outcome tells, matching "
        "and indexing included. RBO is with a model retrained to the optimum, over the forgetting users."
    )
    return ["## 64 users at once", how, table(columns, rows)]


def _unlearning(result: dict[str, Any]) -> list[str]:
    how = (
        f"ml-1m, d = 64, one objective, matrix, start and number of threads for all; medians of {result['rounds']} "
        f"runs. The loss is that on the remaining data, above its optimum; RBO@10 is with the optimum's lists, over "
        f"the users concerned. implicit retrains with its default of 15 iterations of conjugate gradients; its "
        f"partial fit takes the users concerned, then the items, with its matrices at hand. AdamW has the learning "
        f"rate, out of four, that leads to the lowest loss on the request at hand."
    )
    parts = ["## Unlearning beside what people do today", how]
    for case in result["figures"]:
        ours = next(way for way in case["ways"] if way["way"] == "alteraser, affected")
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
        columns = ("way", "seconds", "times ours, affected", "loss above the optimum", "RBO@10")
        users = "1 user" if case["users"] == 1 else f"{case['users']:,} users"
        title = f"### {case['request'].capitalize()}: {case['deleted']:,} interactions of {users}"
        parts += [title, table(columns, rows)]
    return parts


def _sequence(result: dict[str, Any]) -> list[str]:
    found, limits = result["summary"], result["limits"]
    names = {
        "last_over_first": ("time of the last thousand over that of the first", ".2f"),
        "memory_growth": ("memory at the end over that after a thousand", ".3f"),
        "largest_drift": ("largest estimated drift, as a share of the loss", ".2e"),
    }
    reached = [
        Verdict.by_limit(text, found[key], limits[key], form=form) for key, (text, form) in names.items()
    ]
    how = (
        f"{result['requests']:,} users of generated data ({result['interactions']:,} interactions), each deleting half "
        f"of the history, one after another in one session; {found['clean_ups']} times the drift passed its limit and "
        f"all rows were visited. Median {found['p50_ms']:.1f} ms, 99 % within {found['p99_ms']:.1f} ms."
    )
    return ["## A long session", how, verdicts("", reached).markdown()]


def _scaling(result: dict[str, Any]) -> list[str]:
    limits = result["limits"]
    rows = [
        (each["size"] + (" M" if each["size"].isdigit() else ""), "**failed**", *[""] * 8)
        if "failed" in each
        else (
            each["size"] + (" M" if each["size"].isdigit() else ""),
            f"{each['interactions']:,}",
            f"{each['users']:,}",
            f"{each['items']:,}",
            f"{each['seconds_per_pass']:.2f}",
            f"{each['p50_ms']:.1f}",
            f"{each['p99_ms']:.1f}",
            f"{each['peak_gb']:.2f}",
            f"{each['peak_over_held']:.1f}",
            verdict(each["peak_over_held"], limits["memory"]),
        )
        for each in result["figures"]
    ]
    columns = (
        "data",
        "interactions",
        "users",
        "items",
        "s per pass",
        "request, p50 ms",
        "p99 ms",
        "peak memory, GB",
        "over interactions and factors",
        f"at most {limits['memory']:g}",
    )
    growth = result["growth"]
    told = (
        "**failed**"
        if "failed" in growth
        else (
            f"{growth['growth']:.2f} times, {growth['p50_ms'][0]:.1f} to {growth['p50_ms'][1]:.1f} ms, at audiences of "
            f"{growth['audience'][0]:,.0f} and {growth['audience'][1]:,.0f}; wanted is at most "
            f"{limits['p50_growth_to_30']:g} times, reached: {verdict(growth['growth'], limits['p50_growth_to_30'])}"
        )
    )
    how = (
        f"Generated data (power laws, planted tastes, the same mean history) and amazon-book-kgat, d = 64; each in a "
        f"process of its own. Requests are of users with 40 to 80 interactions whose items have together about the "
        f"same audience. From 1 to 30 million interactions, with requests to both in turn, p50 grows {told}. Memory is "
        f"the peak of the process while both indexes are built and the model is trained, and, beside it, without what "
        f"the process held before the data, over what the interactions and the factors take."
    )
    return ["## How it scales", how, table(columns, rows)]


def _scaling_plot(figures: list[dict[str, Any]]) -> str:
    grown = [each for each in figures if "failed" not in each and each["size"].isdigit()]
    real = [each for each in figures if "failed" not in each and not each["size"].isdigit()]

    def line(key: str) -> dict[str, tuple[list[float], list[float]]]:
        return {
            name: ([each["interactions"] for each in group], [each[key] for each in group])
            for name, group in (("generated", grown), ("amazon-book-kgat", real))
            if group
        }

    across = "interactions"
    rows = {
        "seconds per pass": {across: line("seconds_per_pass")},
        "request, p50 ms": {across: line("p50_ms")},
        "request, p99 ms": {across: line("p99_ms")},
        "peak memory, GB": {across: line("peak_gb")},
    }
    return panels(
        "Time and memory with the size of the data",
        rows,
        log_x=(across,),
        log_y=("seconds per pass", "peak memory, GB"),
        from_zero=("request, p50 ms", "request, p99 ms"),
    )


def _footprint(result: dict[str, Any]) -> list[str]:
    names = {
        "help_seconds": "`alteraser --help`, seconds",
        "demo_seconds": "`alteraser demo`, seconds",
        "als_ml_1m_peak_gb": "`alteraser train ml-1m --trainer als --max-passes 20`, peak memory of the process in GB",
    }
    limits = result["limits"]
    reached = [Verdict.by_limit(text, result[key], limits[key]) for key, text in names.items()]
    return ["## The command as a whole", verdicts("", reached).markdown()]


def _startup(result: dict[str, Any]) -> list[str]:
    names = {
        "recommend": "`alteraser recommend MODEL ml-1m --user ID`",
        "recommend, seen items included": "`alteraser recommend MODEL --user ID --include-seen`",
        "forget": "`alteraser forget MODEL ml-1m --user ID`",
        "help": "`alteraser --help`",
    }
    medians, limits = result["median_seconds"], result["limits"]
    rows = [
        (
            text,
            f"{medians[name]:.2f}",
            f"{limits[name]:g}",
            verdict(medians[name], limits[name]),
            f"{result['ratios'][name]:.1f}",
        )
        for name, text in names.items()
    ]
    columns = (
        "command",
        "seconds",
        "wanted at most",
        "reached",
        "times a Python that imports numpy and polars",
    )
    how = (
        f"From the shell, the whole process, on ml-1m with the default model: kernels compiled (`alteraser warm-up`) "
        f"and files read before. Medians of {result['rounds']} rounds, each of all commands in turn with a Python "
        f"process that imports numpy and polars and ends, which took {medians['python']:.2f} s."
    )
    return ["## Before the work begins", how, table(columns, rows)]


def _learning(result: dict[str, Any]) -> list[str]:
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
        "items are drawn as they come in the events, so that most are active and popular ones. It was measured before "
        "with a copy of the model for each change, whose arrays have no room to grow and had to be copied within the "
        "clock; then the three took 0.24, 0.076 and 0.13 T on ml-1m, with an engine since replaced."
    )
    return ["## Learning", how, table(columns, rows)]


def _partial_fit(result: dict[str, Any]) -> list[str]:
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


def _mixed(result: dict[str, Any]) -> list[str]:
    names = {
        "rbo": ("RBO@10 with a model trained anew to its optimum, over 1,000 random users", ".4f"),
        "gap_over_limit": ("the true gap over the limit of drift, largest of 20 moments", ".2f"),
        "last_over_first": ("time of the last thousand over that of the first", ".2f"),
        "memory": ("memory over that of a live model opened on the final data", ".3f"),
        "scores_moved": ("how far what is learned and then forgotten moves scores, relative", ".1e"),
        "scores_moved_clean": ("the same after a clean-up", ".1e"),
    }
    parts = ["## Mixed changes"]
    for each in result["figures"]:
        found = [
            Verdict.by_limit(text, each[key], result["limits"][key], form=form, at_least=key == "rbo")
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
        parts += [f"### {each['dataset']}", how, verdicts("", found).markdown()]
    return parts


SECTIONS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "passes": _passes,
    "requests": _requests,
    "batches": _batches,
    "unlearning": _unlearning,
    "sequence": _sequence,
    "scaling": _scaling,
    "footprint": _footprint,
    "startup": _startup,
    "learning": _learning,
    "partial-fit": _partial_fit,
    "mixed": _mixed,
}
