"""Small data and brute-force answers, written from the equations and sharing no code with the package."""

from __future__ import annotations

import io
import os
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Matrices here are tiny, too; a BLAS reads this when it is loaded, in processes that tests start as well.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numba
import numpy as np
import polars as pl
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from alteraser.data.interactions import Interactions, Vocabulary
from alteraser.data.requests import Requests
from alteraser.models.enmf import ENMF
from alteraser.models.mf import MF
from alteraser.models.objective import Objective


def _build(
    matrix: NDArray[np.bool_], weights: NDArray[np.float64] | None = None, *, ids: str = ""
) -> Interactions:
    """Interactions with a row for each row and column of a dense matrix, empty ones too; ids are "u0", "i0" and on."""
    users, items = np.nonzero(matrix)
    columns = {"user": pl.Series(users, dtype=pl.Int32), "item": pl.Series(items, dtype=pl.Int32)}
    if weights is not None:
        columns["weight"] = pl.Series(weights[users, items], dtype=pl.Float32)
    return Interactions(
        pl.DataFrame(columns),
        Vocabulary(pl.Series([f"{ids}u{row}" for row in range(matrix.shape[0])])),
        Vocabulary(pl.Series([f"{ids}i{row}" for row in range(matrix.shape[1])])),
    )


def _random_data(
    n_users: int = 12,
    n_items: int = 9,
    *,
    seed: int = 0,
    density: float = 0.4,
    confidences: bool = False,
    empty: bool = False,
) -> Interactions:
    """Random interactions; everyone has one unless `empty`, which leaves the last user and item without any."""
    rng = np.random.default_rng(seed)
    matrix = rng.random((n_users, n_items)) < density
    matrix[np.arange(n_users), np.arange(n_users) % (n_items - 1)] = True
    matrix[np.arange(n_items) % (n_users - 1), np.arange(n_items)] = True
    if empty:
        matrix[-1, :] = False
        matrix[:, -1] = False
    # Confidences below and above what a missing entry weighs, and exact in single precision.
    weights = rng.integers(1, 128, matrix.shape) / 32
    return _build(matrix, weights if confidences else None)


def _dense(data: Interactions) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which pairs are there, and their weights; the data must hold each pair once."""
    positive = np.zeros((data.n_users, data.n_items), dtype=bool)
    weights = np.zeros(positive.shape)
    positive[data.users, data.items] = True
    weighted = "weight" in data.events.columns
    weights[data.users, data.items] = data.events["weight"].to_numpy() if weighted else 1.0
    return positive, weights


def _missing_and_l2(
    data: Interactions, objective: Objective
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """w0·a_u·b_v of every pair, λ_u and λ_v, from the definitions."""
    positive, _ = _dense(data)
    of_user, of_item = positive.sum(1), positive.sum(0)
    a = (of_user / objective.mean_user_count) ** objective.user_activity
    b = (of_item / objective.mean_item_count) ** objective.item_popularity
    c_users = objective.w0 * data.n_items if objective.c_users is None else objective.c_users
    c_items = objective.w0 * data.n_users if objective.c_items is None else objective.c_items
    return (
        objective.w0 * np.outer(a, b),
        objective.l2 * (of_user + c_users) ** objective.l2_scaling,
        objective.l2 * (of_item + c_items) ** objective.l2_scaling,
    )


def _dense_loss(
    data: Interactions, objective: Objective, users: Tensor, items: Tensor, eta: Tensor | None = None
) -> Tensor:
    """L from its definition over the whole matrix, in double precision and differentiable; eta is ENMF's."""
    positive, weights = (torch.from_numpy(each) for each in _dense(data))
    missing, user_l2, item_l2 = (torch.from_numpy(each) for each in _missing_and_l2(data, objective))
    h = torch.ones(users.shape[1], dtype=torch.float64)
    if eta is not None:
        h = eta * users.shape[1] ** 0.5 / eta.square().sum().sqrt()
    scores = torch.einsum("ud,vd,d->uv", users, items, h)
    entries = torch.where(positive, weights * (1 - scores) ** 2, missing * scores**2).sum()
    return entries + (user_l2 @ users.square()).sum() + (item_l2 @ items.square()).sum()


def _dense_rows(
    data: Interactions, objective: Objective, items: NDArray[np.float64], h: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Every user row at its minimum given the items, by solving the dense normal equations one row at a time."""
    positive, weights = _dense(data)
    missing, user_l2, _ = _missing_and_l2(data, objective)
    seen = items * h
    rows = np.zeros((data.n_users, items.shape[1]))
    for user in range(data.n_users):
        confidence = np.where(positive[user], weights[user], missing[user])
        matrix = (seen * confidence[:, None]).T @ seen + user_l2[user] * np.eye(items.shape[1])
        rows[user] = np.linalg.solve(matrix, seen.T @ (confidence * positive[user]))
    return rows


def _transposed(data: Interactions) -> Interactions:
    """The same interactions with users and items in each other's place."""
    positive, weights = _dense(data)
    return _build(positive.T, weights.T)


def _small_model(
    data: Interactions,
    *,
    dim: int = 3,
    objective: Objective | None = None,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    enmf: bool = False,
    scale: float = 0.5,
) -> MF | ENMF:
    """A model of that size with random rows (and random h for ENMF), none of them at a minimum."""
    rng = np.random.default_rng(seed)
    users, items = (torch.from_numpy(rng.normal(0, scale, (n, dim))) for n in (data.n_users, data.n_items))
    objective = objective or Objective(w0=0.3, l2=0.05)
    if not enmf:
        return MF(users.to(dtype), items.to(dtype), objective)
    eta = torch.from_numpy(rng.uniform(0.5, 2.0, dim)).to(dtype)
    return ENMF(users.to(dtype), items.to(dtype), objective, eta)


def _pair_requests(data: Interactions, chosen: NDArray[np.bool_]) -> Requests:
    """Requests for the events where `chosen` holds."""
    part = data.only(chosen)
    return Requests.pairs(
        part.user_vocabulary.ids.gather(part.users), part.item_vocabulary.ids.gather(part.items)
    )


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    """Tables here are tiny: threads that wait for each other would take most of the time."""
    before = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    yield
    torch.set_num_threads(before[0])
    numba.set_num_threads(before[1])


@pytest.fixture
def all_threads() -> Iterator[None]:
    """All threads for the kernels, in tests that are about threads."""
    before, config = numba.get_num_threads(), vars(numba.config)
    numba.set_num_threads(config["NUMBA_NUM_THREADS"])
    yield
    numba.set_num_threads(before)


# Factories as session fixtures: hypothesis may then use them too.
@pytest.fixture(scope="session")
def build() -> Callable[..., Interactions]:
    return _build


@pytest.fixture(scope="session")
def random_data() -> Callable[..., Interactions]:
    return _random_data


@pytest.fixture(scope="session")
def transposed() -> Callable[[Interactions], Interactions]:
    return _transposed


@pytest.fixture(scope="session")
def dense() -> Callable[[Interactions], tuple[NDArray[np.bool_], NDArray[np.float64]]]:
    return _dense


@pytest.fixture(scope="session")
def missing_and_l2() -> Callable[..., tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]]:
    return _missing_and_l2


@pytest.fixture(scope="session")
def dense_loss() -> Callable[..., Tensor]:
    return _dense_loss


@pytest.fixture(scope="session")
def dense_rows() -> Callable[..., NDArray[np.float64]]:
    return _dense_rows


@pytest.fixture(scope="session")
def small_model() -> Callable[..., MF | ENMF]:
    return _small_model


@pytest.fixture(scope="session")
def pair_requests() -> Callable[[Interactions, NDArray[np.bool_]], Requests]:
    return _pair_requests


def _zipped(members: dict[str, str]) -> bytes:
    """A zip file with these members."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return made.getvalue()


@pytest.fixture(scope="session")
def zipped() -> Callable[..., bytes]:
    return _zipped


@dataclass
class Server:
    """A web server on this machine, and how it is to answer whatever is asked."""

    url: str
    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    # Bytes that are promised but never come: the connection is closed or, if it stalls, silent.
    missing: int = 0
    stalls: bool = False
    # Instead of all the above, exactly these bytes.
    raw: bytes | None = None
    asked: list[str] = field(default_factory=list)
    sent: threading.Event = field(default_factory=threading.Event)
    end: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers.asked.append(self.path)
            with suppress(OSError):  # the client may have had enough
                self.answer()
            answers.sent.set()
            if answers.stalls:
                answers.end.wait(60)

        def answer(self) -> None:
            if answers.raw is not None:
                self.wfile.write(answers.raw)
                return
            self.send_response(answers.status)
            self.send_header("Content-Length", str(len(answers.body) + answers.missing))
            for name, value in answers.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answers.body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web:
        answers = Server(f"http://127.0.0.1:{web.server_port}/sets/")
        thread = threading.Thread(target=web.serve_forever, args=(0.01,))
        thread.start()
        yield answers
        answers.end.set()
        web.shutdown()
        thread.join()
