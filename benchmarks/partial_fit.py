"""One user's request beside implicit's `partial_fit_users` and `partial_fit_items`, on its objective, user after user.

Both start from the optimum, and each goes on from where it came: 200 users in turn delete half of their history.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from alteraser.data.changes import Change
from alteraser.data.datasets import load_dataset
from alteraser.data.interactions import Side
from alteraser.kernels.jit import n_threads
from alteraser.live.model import LiveModel
from alteraser.models.mf import MF
from alteraser.train.named import TO_THE_OPTIMUM
from benchmarks.requests import half_of
from benchmarks.rivals import OBJECTIVE, Implicit

# Our time over theirs, at no higher loss.
LIMIT = 0.5


def measure(data_dir: str | None, *, n_users: int = 200, dataset: str = "ml-1m") -> dict[str, Any]:
    """The seconds of each request by both, and the loss of both on what remains at some moments."""
    data, rng = load_dataset(dataset, data_dir=data_dir), np.random.default_rng(0)
    start = MF.sized_for(data, dim=64, objective=OBJECTIVE, rng=rng)
    original = TO_THE_OPTIMUM.train(start, data, rng=None).model
    users = rng.choice(np.flatnonzero(data.by(Side.USERS).counts >= 4), n_users, replace=False)
    with threadpool_limits(1, user_api="blas"):  # implicit runs its own threads, each calling BLAS
        live, theirs = LiveModel(original, data), Implicit(data, original, cg=True)
        remain, ours_seconds, their_seconds, losses = data, [], [], []
        for number, user in enumerate(users.tolist()):
            request = half_of(data, user, rng)
            gone = request.match(remain).mask
            change = Change.of_deletion(remain, remain.only(gone), remain.without(gone))
            remain = remain.without(gone)
            theirs.give(remain)  # its matrices are at hand when its clock starts
            ours_seconds.append(live.forget(request).cost.seconds)
            began = time.perf_counter()
            theirs.partial_fit(np.unique(change.users), np.unique(change.items))
            their_seconds.append(time.perf_counter() - began)
            if number == 0 or (number + 1) % 20 == 0:
                losses.append((number + 1, live.model.loss(remain), theirs.model.loss(remain)))
        optimum = TO_THE_OPTIMUM.train(original, remain, rng=None).model.loss(remain)
    each = [a / b for a, b in zip(ours_seconds, their_seconds, strict=True)]
    return {
        "dataset": dataset,
        "users": n_users,
        "threads": n_threads(),
        "limit": LIMIT,
        "ratio": statistics.median(each),
        "ratio_of_sums": sum(ours_seconds) / sum(their_seconds),
        "ours_ms": [1e3 * seconds for seconds in ours_seconds],
        "theirs_ms": [1e3 * seconds for seconds in their_seconds],
        "losses": [
            {"after": after, "ours_above": ours - optimum, "theirs_above": other - optimum}
            for after, ours, other in losses
        ],
    }
