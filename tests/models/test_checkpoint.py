"""A model's folder: what was written comes back; what was damaged is refused; what was forgotten is not in it."""

from __future__ import annotations

import hashlib
import json
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import safetensors.torch
import torch

from alteraser.data.files import read_interactions, write_interactions
from alteraser.data.frames import interactions
from alteraser.data.interactions import Interactions, Side
from alteraser.data.read_options import ReadOptions
from alteraser.data.requests import Requests
from alteraser.errors import MismatchError, ModelFileError, OutputExists, WriteError
from alteraser.models.bilinear import Bilinear
from alteraser.models.enmf import ENMF
from alteraser.models.objective import Objective
from alteraser.train.als import ALS
from alteraser.unlearn.alteraser import AltEraser
from alteraser.versions.history import Batch
from alteraser.versions.version import Version, load_version

FILES = ("parameters.safetensors", "users.parquet", "items.parquet", "manifest.json")
READING = ReadOptions(
    user="who", item="what", min_interactions=2, any_rating=True, separator="::", header=False
)
ERASED = (Batch("ab" * 32, 3),)
TRAINER = ALS(max_passes=7, tolerance=1e-5, solve_shared=True)
TRAINING = {"trainer": "als", "max_passes": 7, "tolerance": 1e-5, "solve_h": True}


@pytest.fixture(scope="module")
def data(random_data: Any) -> Interactions:
    interactions: Interactions = random_data(12, 9, confidences=True)
    return interactions


@pytest.fixture(scope="module")
def stored(data: Interactions, small_model: Any) -> Version:
    model = small_model(data, enmf=True)
    return Version.of(model, data, read_options=READING, history=ERASED, trainer=TRAINER)


@pytest.fixture
def folder(stored: Version, tmp_path: Path) -> Path:
    stored.save(tmp_path / "model")
    return tmp_path / "model"


def users_of(version: Version) -> torch.Tensor:
    return version.model.table(Side.USERS)


def resign(folder: Path, change: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
    """Make all digests agree again, as somebody would who wants to be believed."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest.pop("sha256", None)
    manifest["files"] = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES[:3]}
    change(manifest)
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    manifest["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("enmf", [False, True], ids=["mf", "enmf"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("seed", range(3))
def test_what_was_written_comes_back(
    enmf: bool, dtype: torch.dtype, seed: int, data: Interactions, small_model: Any, tmp_path: Path
) -> None:
    objective = Objective(
        w0=0.25, l2=1e-5, l2_scaling=0.5, item_popularity=0.1, mean_item_count=5.5, c_users=seed or None
    )
    model = small_model(data, dim=7, enmf=enmf, dtype=dtype, objective=objective, seed=seed)
    stored = Version.of(model, data, read_options=READING, history=ERASED, trainer=TRAINER if enmf else None)
    stored.save(tmp_path / "model")
    back = load_version(tmp_path / "model")
    read = back.model
    assert isinstance(read, Bilinear)
    assert type(read) is type(model)
    assert read.objective == objective
    assert torch.equal(read.users, model.users)
    assert torch.equal(read.items, model.items)
    assert torch.equal(read.h, model.h)
    everyone = np.arange(model.n_users)
    assert torch.equal(read.scores(everyone), model.scores(everyone))
    assert back.user_vocabulary.ids.to_list() == data.user_vocabulary.ids.to_list()
    assert back.item_vocabulary.ids.to_list() == data.item_vocabulary.ids.to_list()
    assert back.read_options == READING
    assert back.history == ERASED
    assert back.training == (TRAINING if enmf else None)
    assert back.data_digest == data.digest()
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == sorted(FILES)


def test_writing_again_what_was_read_writes_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    load_version(folder).save(tmp_path / "again")
    for name in FILES:
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes(), name


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("flip", [0x01, 0x10, 0x80, 0xFF])
def test_a_flipped_byte_is_noticed_wherever_it_is(name: str, flip: int, folder: Path) -> None:
    whole = (folder / name).read_bytes()
    for place in np.unique(np.linspace(0, len(whole) - 1, 60).astype(int)):
        damaged = bytearray(whole)
        damaged[place] ^= flip
        (folder / name).write_bytes(damaged)
        with pytest.raises(ModelFileError):
            load_version(folder)
    (folder / name).write_bytes(whole)
    load_version(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_lengthened_empty_or_missing_file_is_noticed(name: str, folder: Path) -> None:
    whole = (folder / name).read_bytes()
    for content in (b"", whole[:1], whole[: len(whole) // 2], whole[:-2], whole + b"\0"):
        (folder / name).write_bytes(content)
        with pytest.raises(ModelFileError):
            load_version(folder)
    (folder / name).unlink()
    with pytest.raises(ModelFileError):
        load_version(folder)
    (folder / name).mkdir()
    with pytest.raises(ModelFileError):
        load_version(folder)


def test_no_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError):
        load_version(tmp_path / "nowhere")
    with pytest.raises(ModelFileError):
        load_version(tmp_path)


def test_swapped_files_are_noticed(folder: Path) -> None:
    (folder / "users.parquet").rename(folder / "kept")
    (folder / "items.parquet").rename(folder / "users.parquet")
    (folder / "kept").rename(folder / "items.parquet")
    with pytest.raises(ModelFileError):
        load_version(folder)
    resign(folder)  # even with digests to match: 12 users have no room in a list of 9 ids
    with pytest.raises(ModelFileError):
        load_version(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_model_is_noticed(
    name: str, folder: Path, small_model: Any, random_data: Any, tmp_path: Path
) -> None:
    data = random_data(12, 9, seed=1)
    renamed = replace(
        data,
        user_vocabulary=type(data.user_vocabulary)(pl.Series([f"x{row}" for row in range(12)])),
        item_vocabulary=type(data.item_vocabulary)(pl.Series([f"y{row}" for row in range(9)])),
    )
    other = Version.of(small_model(renamed, enmf=True, seed=5), renamed, read_options=READING)
    other.save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / name, folder / name)
    with pytest.raises(ModelFileError):
        load_version(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 3},
        {"version": "2"},
        {"version": None},
        {"format": "other"},
        {"model": "ncf"},
        {"model": "mf"},  # but the tensors are those of ENMF
        {"files": {}},
        {"files": 3},
        {"files": list(FILES[:3])},
        {"settings": {}},
        {"settings": {"dim": 3, "l2": -1}},
        {"settings": {"dim": 3, "l2": 1, "surprise": 1}},
        {"settings": {"dim": 5, "l2": 1}},
        {"data": {}},
        {"data": None},
        {"data": {"sha256": "0", "reading": {"surprise": 1}}},
        {"history": [{}]},
        {"history": 1},
        {"history": [{"hmac_sha256": "0", "count": 1, "requests_hmac_sha256": "0"}]},
        {"history": [{"hmac_sha256": "0", "count": 1, "settings": 3}]},
        {"training": 1},
        {"training": ["als"]},
        {"training": {"trainer": ["als"]}},
    ],
    ids=str,
)
def test_a_manifest_that_makes_no_sense_is_refused_though_signed(
    change: dict[str, Any], folder: Path
) -> None:
    resign(folder)
    load_version(folder)  # the signature alone is in order
    resign(folder, lambda manifest: manifest.update(change))
    with pytest.raises(ModelFileError):
        load_version(folder)


@pytest.mark.parametrize(
    "content", [b"[]", b"null", b"3", b"{}", b"\xff\xfe", b'{"format": "alteraser-model"}']
)
def test_a_manifest_that_is_none_is_refused(content: bytes, folder: Path) -> None:
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(ModelFileError):
        load_version(folder)


def _with(tensors: dict[str, torch.Tensor], name: str, value: torch.Tensor) -> dict[str, torch.Tensor]:
    return {**tensors, name: value}


def _poisoned(tensors: dict[str, torch.Tensor], name: str, number: float) -> dict[str, torch.Tensor]:
    value = tensors[name].clone()
    value.view(-1)[1] = number
    return _with(tensors, name, value)


@pytest.mark.parametrize(
    "damage",
    [
        lambda t: _poisoned(t, "users", float("nan")),
        lambda t: _poisoned(t, "items", float("inf")),
        lambda t: _poisoned(t, "h", -float("inf")),
        lambda t: _with(t, "users", t["users"][:-1].clone()),
        lambda t: _with(t, "items", torch.cat([t["items"], t["items"]])),
        lambda t: _with(t, "users", t["users"][:, :2].clone()),
        lambda t: _with(t, "users", t["users"].reshape(-1)),
        lambda t: _with(t, "h", t["h"][:1].clone()),
        lambda t: _with(t, "h", t["h"][None].clone()),
        lambda t: _with(t, "h", torch.zeros_like(t["h"])),
        lambda t: _with(t, "users", t["users"].long()),
        lambda t: _with(t, "users", t["users"].half()),
        lambda t: _with(t, "users", t["users"].float()),
        lambda t: _with(t, "extra", t["h"].clone()),
        lambda t: {name: value for name, value in t.items() if name != "items"},
    ],
)
def test_tensors_that_make_no_model_are_refused_though_signed(damage: Any, folder: Path) -> None:
    path = folder / "parameters.safetensors"
    safetensors.torch.save_file(damage(safetensors.torch.load_file(path)), path)
    resign(folder)
    with pytest.raises(ModelFileError):
        load_version(folder)


def test_a_model_that_is_not_finite_is_not_written(stored: Version, tmp_path: Path) -> None:
    users = users_of(stored).clone()
    users[3, 1] = torch.nan
    broken = replace(stored, model=stored.model.with_rows(Side.USERS, np.arange(len(users)), users))
    with pytest.raises(ModelFileError):
        broken.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_replaced_only_by_force(folder: Path, small_model: Any, data: Any) -> None:
    before = {name: (folder / name).read_bytes() for name in FILES}
    other = Version.of(small_model(data, seed=9), data, read_options=READING)
    with pytest.raises(OutputExists):
        other.save(folder)
    assert {name: (folder / name).read_bytes() for name in FILES} == before
    other.save(folder, force=True)
    assert torch.equal(users_of(load_version(folder)), users_of(other))
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


@contextmanager
def largest_file(n_bytes: int) -> Iterator[None]:
    """The system refuses to let a file grow further: a real failure of writing, as with a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("name", ["parameters.safetensors", "users.parquet", "manifest.json"])
def test_when_writing_fails_half_way_nothing_is_left_behind_and_nothing_is_lost(
    name: str, force: bool, data: Interactions, small_model: Any, tmp_path: Path
) -> None:
    if name == "users.parquet":  # long ids, so that this file is the first that is too large
        ids = [hashlib.sha512(bytes([row])).hexdigest() for row in range(data.n_users)]
        data = replace(data, user_vocabulary=type(data.user_vocabulary)(pl.Series(ids)))
    dim = 40 if name == "parameters.safetensors" else 1
    stored = Version.of(small_model(data, dim=dim, dtype=torch.float32), data, read_options=READING)
    stored.save(tmp_path / "model")
    sizes = {each: (tmp_path / "model" / each).stat().st_size for each in FILES}
    limit = sizes[name] - 1
    assert all(sizes[before] <= limit for before in FILES[: FILES.index(name)])
    if not force:
        shutil.rmtree(tmp_path / "model")

    with largest_file(limit), pytest.raises(WriteError):
        stored.save(tmp_path / "model", force=force)

    assert [each.name for each in tmp_path.iterdir()] == (["model"] if force else [])
    if force:
        assert torch.equal(users_of(load_version(tmp_path / "model")), users_of(stored))


def test_the_manifest_holds_no_id(small_model: Any, tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "user_id": ["secret-alice", "secret-alice", "secret-bob", "secret-bob"],
            "item_id": ["secret-book", "secret-lamp", "secret-lamp", "secret-book"],
        }
    )
    data = interactions(frame)
    requests = Requests.of([{"user": "secret-alice", "item": "secret-lamp"}])
    outcome = AltEraser().forget(small_model(data), data, requests)
    erased = (Batch(requests.digest(b"key"), len(requests)),)
    Version.of(outcome.model, outcome.remain, read_options=ReadOptions(), history=erased).save(
        tmp_path / "model"
    )
    assert b"secret" not in (tmp_path / "model" / "manifest.json").read_bytes()
    assert load_version(tmp_path / "model").history == erased


def test_a_folder_that_is_silent_on_the_constants_of_the_penalty_reads_as_before(folder: Path) -> None:
    def forget_them(manifest: dict[str, Any]) -> None:
        del manifest["settings"]["c_users"], manifest["settings"]["c_items"]

    resign(folder, forget_them)
    model = load_version(folder).model
    assert isinstance(model, Bilinear)
    assert (model.objective.c_users, model.objective.c_items) == (None, None)
    w0, l2 = model.objective.w0, model.objective.l2
    np.testing.assert_allclose(model.row_weights(Side.USERS, np.array([2]))[1], l2 * (2 + w0 * model.n_items))


def test_no_number_in_the_manifest_tells_how_many_interactions_there_were(
    random_data: Any, tmp_path: Path
) -> None:
    """What there was at training less what is there now is what was forgotten."""
    data = random_data(97, 83)
    model = ENMF.sized_for(data, dim=2, rng=np.random.default_rng(0))
    Version.of(model, data).save(tmp_path / "model")
    n_pairs = data.by(Side.USERS).n_entries
    settings = json.loads((tmp_path / "model" / "manifest.json").read_text())["settings"]
    for name in ("mean_user_count", "mean_item_count", "c_users", "c_items"):
        assert settings[name] == float(f"{settings[name]:.1e}")
        for n_rows in (97, 83):
            assert round(settings[name] * n_rows) != n_pairs


def test_a_wholly_forgotten_id_is_nowhere_in_the_folder(small_model: Any, tmp_path: Path) -> None:
    users = [f"person-{letter}" for letter in "abcdefghijklmnopqrst"]
    frame = pl.DataFrame(
        [(user, f"thing-{(row + step) % 7}") for row, user in enumerate(users) for step in range(3)],
        schema=["user_id", "item_id"],
        orient="row",
    )
    data = interactions(frame)
    model = small_model(data)
    Version.of(model, data, read_options=ReadOptions()).save(tmp_path / "before")
    gone = users[0]
    row = data.user_vocabulary.ids.to_list().index(gone)
    outcome = AltEraser().forget(model, data, Requests.of([{"user": gone}]))
    Version.of(outcome.model, outcome.remain, read_options=ReadOptions()).save(tmp_path / "after")

    ids = pl.read_parquet(tmp_path / "after" / "users.parquet")["id"].to_list()
    assert ids[row] is None
    assert len(ids) == 20
    assert [each for each in ids if each is not None] == sorted(set(users) - {gone})
    # Pages are compressed, statistics are not: before, the first id in the alphabet stands there in the clear.
    assert gone.encode() in (tmp_path / "before" / "users.parquet").read_bytes()
    for path in (tmp_path / "after").iterdir():
        assert gone.encode() not in path.read_bytes(), path.name
    back = load_version(tmp_path / "after")
    assert back.user_vocabulary.n_forgotten == 1
    assert (users_of(back)[row] == 0).all()
    assert back.aligned(outcome.remain).digest() == outcome.remain.digest()


def test_the_data_of_a_model_is_known_in_any_order(stored: Version, data: Interactions, folder: Path) -> None:
    back = load_version(folder)
    shuffled = data.to_frame().sample(fraction=1.0, shuffle=True, seed=3)
    again = back.aligned(interactions(shuffled, user="user_id", item="item_id", weight="weight"))
    assert again.digest() == data.digest()
    for own, wanted in ((again.users, data.users), (again.items, data.items)):
        assert sorted(own.tolist()) == sorted(wanted.tolist())
    assert back.model.loss(again) == pytest.approx(stored.model.loss(data), rel=1e-12)


def test_unless_told_otherwise_the_data_is_read_as_it_is_written(
    data: Interactions, small_model: Any, tmp_path: Path
) -> None:
    Version.of(small_model(data), data).save(tmp_path / "model")
    write_interactions(data, tmp_path / "data.parquet")
    back = load_version(tmp_path / "model")
    again = back.aligned(read_interactions(tmp_path / "data.parquet", read_options=back.read_options))
    assert again.digest() == data.digest()


def test_around_the_core_there_may_be_more(data: Interactions, small_model: Any) -> None:
    more = pl.concat([data.to_frame(), data.to_frame()[:1].with_columns(user_id=pl.lit("nobody"))])
    wider = interactions(more, weight="weight")
    core = Version.of(small_model(data), data, read_options=ReadOptions(min_interactions=2))
    assert core.aligned(wider).digest() == data.digest()
    with pytest.raises(MismatchError, match="1 of"):
        Version.of(small_model(data), data).aligned(wider)


def test_a_model_on_other_data_has_its_rows_where_the_ids_are(stored: Version) -> None:
    frame = pl.DataFrame({"user_id": ["u7", "nobody", "u2"], "item_id": ["i3", "i0", "nothing"]})
    other = interactions(frame)
    model = stored.on(other)
    assert other.user_vocabulary.ids.to_list() == ["nobody", "u2", "u7"]
    users, items = (stored.model.table(side) for side in Side)
    assert torch.equal(model.table(Side.USERS), torch.stack([torch.zeros(3).double(), *users[[2, 7]]]))
    assert other.item_vocabulary.ids.to_list() == ["i0", "i3", "nothing"]
    assert torch.equal(model.table(Side.ITEMS), torch.stack([*items[[0, 3]], torch.zeros(3).double()]))


def test_other_data_is_refused(data: Interactions, folder: Path) -> None:
    back = load_version(folder)
    first = np.arange(len(data)) == 0
    matrix = np.zeros((data.n_users, data.n_items), dtype=bool)
    matrix[data.users, data.items] = True
    user, item = np.argwhere(~matrix)[0]
    one_more = data.events[:1].with_columns(user=pl.lit(user, pl.Int32), item=pl.lit(item, pl.Int32))
    other_weight = data.events.with_columns(weight=pl.when(pl.Series(first)).then(9.0).otherwise("weight"))
    for other in (
        data.without(first),
        replace(data, events=pl.concat([data.events, one_more])),
        replace(data, events=other_weight.cast({"weight": pl.Float32})),
        interactions(pl.DataFrame({"user_id": ["nobody"], "item_id": ["i1"]})),
    ):
        with pytest.raises(MismatchError):
            back.aligned(other)


def test_a_model_is_stored_only_with_data_of_its_size(random_data: Any, small_model: Any) -> None:
    with pytest.raises(MismatchError):
        Version.of(small_model(random_data(12, 9)), random_data(12, 8), read_options=READING)
