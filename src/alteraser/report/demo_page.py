"""The demo's page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from alteraser.report import plots
from alteraser.report.comparison import ACCURACY, RBO, RE_PREDICT, provenance, sections
from alteraser.report.demo import AccountErasure, Demo
from alteraser.report.html import Figure, Section, page
from alteraser.report.tables import Table, times


def demo_page(demo: Demo, of_models: Mapping[str, Mapping[str, str]], date: str) -> str:
    """The report as one page of HTML; `of_models` says of each model where it comes from."""
    account, full = demo.account, demo.data.full
    first, *rest = sections(demo.report, seconds=demo.seconds)
    lead = (
        f"A model of {full.n_users:,} users and {full.n_items:,} items forgot one account in {account.seconds:.3f} s. "
        f"Retraining without it took {account.retraining_seconds:.3f} s, {times(account.times_faster)} as long."
    )
    about = {
        "Date": date,
        "Data": f"{demo.dataset} (embedded), {len(full):,} interactions to train on, {len(demo.data.test):,} held out",
        "Training the original": f"{demo.training_seconds:.3f} s, once, before anybody asked",
    }
    return page(
        "What the model forgot",
        lead,
        [
            _account(account),
            _foreign(demo),
            replace(first, terms=[ACCURACY]),
            *rest,
            provenance(of_models, about),
        ],
    )


def _account(account: AccountErasure) -> Section:
    names = tuple(account.rbo)
    rows = (
        (
            f"RBO@10 with retrained, {account.n_others:,} other users",
            *(f"{account.rbo[n]:.4f}" for n in names),
        ),
        ("Re-predict score of the account", *(f"{account.re_predict[n]:.4f}" for n in names)),
    )
    return Section(
        "One account",
        text=f"An account of {account.n_interactions} interactions asked to be forgotten. In a live model, which was "
        f"opened once in {account.opening_seconds:.3f} s, that took a visit to {account.rows_visited:,} of "
        f"{account.n_rows:,} rows. Retraining used the trainer and stopping rule of the original "
        f"({account.retraining_passes} passes). No compilation is in either clock.",
        figures=[
            Figure(f"{account.seconds:.3f} s", f"to forget an account (median of {account.n_accounts})"),
            Figure(f"{account.retraining_seconds:.3f} s", "to retrain without it"),
            Figure(times(account.times_faster), "faster"),
        ],
        terms=[RBO, RE_PREDICT],
        plots=[
            plots.bars(
                "Seconds to forget one account",
                {"unlearned": account.seconds, "retrained": account.retraining_seconds},
                unit=" s",
                decimals=3,
            )
        ],
        tables=[Table("One account", ("", *names), rows)],
    )


def _foreign(demo: Demo) -> Section:
    n_users, seconds = len(demo.data.topic_of_user), demo.seconds
    return Section(
        "Accounts used by somebody else",
        text=f"{n_users} users had {len(demo.data.requests)} interactions that were not theirs, and asked to have "
        f"them forgotten: a live model took {seconds['unlearned']:.3f} s for all of them, retraining "
        f"{seconds['retrained']:.3f} s. Here are the lists of the user who was shown most of it: someone else's "
        f"{demo.topic} (marked). The unlearned model has forgotten it, and agrees with the model that never saw it.",
        lists=demo.lists,
    )
