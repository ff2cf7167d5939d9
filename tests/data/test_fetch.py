"""Data sets are fetched whole, checked and readable by name; whatever goes wrong leaves nothing behind."""

from __future__ import annotations

import hashlib
import os
import resource
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from alteraser.data import archives, fetch
from alteraser.data.archives import ARCHIVES
from alteraser.data.datasets import DATASETS, load_dataset
from alteraser.data.fetch import fetch_dataset
from alteraser.errors import (
    DataError,
    DatasetNotFound,
    DownloadError,
    OutputExists,
    SettingError,
    WriteError,
)

Zipped = Callable[[dict[str, str]], bytes]
# User 7 at the times 30, 10, 10, 20, and user 3 once; the file is in the order of nothing.
RATINGS = [(7, 4, 5, 30), (7, 9, 3, 10), (3, 9, 1, 5), (7, 2, 4, 10), (7, 5, 2, 20)]
RANKS = [3, 0, 0, 1, 2]
FOLDER = os.environ.get("ALTERASER_DATA")


def text(name: str, rows: Sequence[tuple[int, ...]]) -> str:
    return "".join(ARCHIVES[name].separator.join(map(str, row)) + "\n" for row in rows)


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


@pytest.fixture
def fetch_from(server: Any, tmp_path: Path) -> Callable[..., fetch.Fetched]:
    """Fetch ml-1m from the server to `sets/here`, believing in what it sends unless told otherwise."""

    def run(name: str = "ml-1m", **options: Any) -> fetch.Fetched:
        options = {"data_dir": tmp_path / "sets" / "here", "md5": md5(server.body), **options}
        return fetch_dataset(name, base_url=server.url, **options)

    return run


@pytest.mark.parametrize("name", ARCHIVES)
@pytest.mark.parametrize("ending", ["\n", "\r\n", ""])
def test_a_fetched_set_is_read_by_its_name(
    fetch_from: Any, server: Any, zipped: Zipped, tmp_path: Path, name: str, ending: str
) -> None:
    content = text(name, RATINGS).replace("\n", ending) if ending else text(name, RATINGS).removesuffix("\n")
    server.body = zipped({"README": "terms", ARCHIVES[name].member: content})
    seen: list[tuple[int, int | None]] = []
    fetched = fetch_from(name, progress=lambda done, total: seen.append((done, total)))
    assert server.asked == [f"/sets/{name}.zip"]
    assert seen[-1] == (len(server.body), len(server.body))
    assert fetched == fetch.Fetched(
        name, f"{server.url}{name}.zip", tmp_path / "sets/here" / name / "interactions.parquet", 5
    )
    columns = ["user_id", "item_id", "rating", "timestamp"]
    expected = pl.DataFrame(RATINGS, schema=columns, orient="row")
    if name == "ml-1m":
        expected = expected.with_columns(time_rank=pl.Series(RANKS))
    there = pl.read_parquet(fetched.path)
    assert there.cast(pl.Int64).equals(expected.sort("user_id", "item_id"))
    assert list(fetched.path.parent.iterdir()) == [fetched.path]
    data = load_dataset(name, data_dir=tmp_path / "sets/here")
    assert (len(data), data.n_users, data.n_items) == (5, 2, 4)
    assert data.times is not None
    assert load_dataset(name, data_dir=tmp_path / "sets/here", min_rating=4, rating="rating").n_users == 1


def test_it_goes_to_the_first_folder_that_is_looked_in(
    fetch_from: Any, server: Any, zipped: Zipped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.body = zipped({"ml-1m/ratings.dat": text("ml-1m", RATINGS)})
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ALTERASER_DATA", raising=False)
    assert fetch_from(data_dir=None).path.parent == tmp_path / "home/.cache/alteraser/ml-1m"
    monkeypatch.setenv("ALTERASER_DATA", str(tmp_path / "named"))
    assert fetch_from(data_dir=None).path.parent == tmp_path / "named/ml-1m"


def test_the_address_is_that_of_grouplens_unless_another_is_named(
    server: Any, zipped: Zipped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def no_network(url: str, timeout: float) -> None:
        del timeout
        asked.append(url)
        raise DownloadError

    with monkeypatch.context() as patch:
        patch.setattr(fetch, "_open", no_network)
        for value in (None, ""):
            patch.delenv("ALTERASER_DATASET_URL", raising=False)
            if value is not None:
                patch.setenv("ALTERASER_DATASET_URL", value)
            for name in ARCHIVES:
                with pytest.raises(DownloadError):
                    fetch_dataset(name, data_dir=tmp_path)
    base = "https://files.grouplens.org/datasets/movielens"
    assert asked == [f"{base}/ml-1m.zip", f"{base}/ml-100k.zip"] * 2
    server.body = zipped({"ml-1m/ratings.dat": text("ml-1m", RATINGS)})
    monkeypatch.setenv("ALTERASER_DATASET_URL", server.url.rstrip("/"))
    assert fetch_dataset("ml-1m", data_dir=tmp_path, md5=md5(server.body)).n_interactions == 5


@pytest.mark.parametrize(
    "address",
    ["file:///etc", "ftp://a/b", "http://", "sets", "http://[", "http://a/?b", "http://a/#b", "//a/b"],
)
def test_an_address_that_cannot_be_downloaded_from_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(SettingError, match="is not an address"):
        fetch_dataset("ml-1m", data_dir=tmp_path / "sets", base_url=address)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["synthetic", "amazon-14core", "ml-2m", "../x"])
def test_only_what_is_published_can_be_fetched(tmp_path: Path, name: str) -> None:
    with pytest.raises(DatasetNotFound, match="the names are ml-1m, ml-100k"):
        fetch_dataset(name, data_dir=tmp_path)
    assert set(ARCHIVES) < set(DATASETS)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
NETWORK: dict[str, tuple[dict[str, Any], str]] = {
    "not there": ({"status": 404}, "the server answered with status 404"),
    "the server's fault": ({"status": 503}, "status 503"),
    "broken off": ({"missing": 1000}, r"broke off after \d+ of \d+ bytes"),
    "broken off at once": ({"body": b"", "missing": 1000}, "broke off after 0 of 1000 bytes"),
    "broken off in a chunk": ({"raw": CHUNKED + b"ff\r\nabc"}, "broke off"),
    "broken off between chunks": ({"raw": CHUNKED + b"3\r\nabc\r\n"}, "broke off"),
    "silent at once": ({"raw": b"", "stalls": True}, "did not answer in time"),
    "silent in the middle": ({"missing": 1000, "stalls": True}, "did not answer in time"),
    "closed without an answer": ({"raw": b""}, "could not be downloaded"),
    "another protocol": ({"raw": b"220 ready\r\n"}, "could not be downloaded"),
    "a redirection to a file": ({"status": 302, "headers": {"Location": "file:///etc/hosts"}}, "status 302"),
    "a redirection to ftp": (
        {"status": 302, "headers": {"Location": "ftp://127.0.0.1/a"}},
        "could not be down",
    ),
    "a redirection to itself": ({"status": 302, "headers": {"Location": "ml-1m.zip"}}, "status 302"),
    "too much": ({"body": bytes(3000)}, "more than 2000 bytes"),
    "too much promised": ({"missing": 3000}, "more than 2000 bytes"),
    "an empty answer": ({"body": b""}, "MD5 checksum"),
}


@pytest.mark.parametrize("case", NETWORK)
def test_a_download_that_fails_leaves_nothing(
    fetch_from: Any,
    server: Any,
    zipped: Zipped,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    case: str,
) -> None:
    answer, said = NETWORK[case]
    monkeypatch.setattr(fetch, "MAX_ARCHIVE_BYTES", 2000)
    whole = zipped({"ml-1m/ratings.dat": text("ml-1m", RATINGS)})
    server.body = whole
    for setting, value in answer.items():
        setattr(server, setting, value)
    with pytest.raises(DownloadError, match=said):
        fetch_from(md5=md5(whole), timeout=0.3 if server.stalls else 10)
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    for address in (
        f"http://127.0.0.1:{port}",
        "http://127.0.0.1:none",
        "http://127.0.0.1:99999",
        "http://a b/",
    ):
        with pytest.raises(DownloadError, match="could not be downloaded"):
            fetch_dataset("ml-1m", data_dir=tmp_path / "sets", base_url=address, timeout=5)
    assert list(tmp_path.iterdir()) == []


def test_a_proxy_is_used_as_the_environment_says(
    server: Any, zipped: Zipped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.body = zipped({"ml-1m/ratings.dat": text("ml-1m", RATINGS)})
    monkeypatch.delenv("no_proxy")
    monkeypatch.setenv("http_proxy", server.url)
    address = "http://files.grouplens.org/sets"
    assert (
        fetch_dataset("ml-1m", data_dir=tmp_path, base_url=address, md5=md5(server.body)).n_interactions == 5
    )
    assert server.asked == [f"{address}/ml-1m.zip"]


def test_another_file_than_the_published_one_is_refused(
    fetch_from: Any, server: Any, zipped: Zipped, tmp_path: Path
) -> None:
    server.body = zipped({"ml-1m/ratings.dat": text("ml-1m", RATINGS)})
    with pytest.raises(
        DownloadError, match=rf"{md5(server.body)}, wanted is c4d9eecfca2ab87c1945afe126590906"
    ):
        fetch_from(md5=None)
    assert list(tmp_path.iterdir()) == []


def damaged(whole: bytes, what: str) -> bytes:
    if what == "no zip":
        return b"<html>Please log in</html>"
    if what == "half":
        return whole[: len(whole) // 2]
    changed = bytearray(whole)
    if what == "password":
        for header, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            changed[whole.index(header) + flags] |= 1
    elif what == "unknown packing":
        for header, packing in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
            changed[whole.index(header) + packing] = 99
    else:
        changed[whole.index(b"ratings.dat") + len("ratings.dat") + int(what)] ^= 0xFF
    return bytes(changed)


@pytest.mark.parametrize("what", ["no zip", "half", "password", "unknown packing", "0", "5", "20"])
def test_an_archive_that_is_damaged(
    fetch_from: Any, server: Any, zipped: Zipped, tmp_path: Path, what: str
) -> None:
    server.body = damaged(zipped({"ml-1m/ratings.dat": text("ml-1m", RATINGS)}), what)
    with pytest.raises(DataError, match="could not be read as a zip file"):
        fetch_from()
    assert list(tmp_path.iterdir()) == []


def test_an_archive_of_something_else(fetch_from: Any, server: Any, zipped: Zipped, tmp_path: Path) -> None:
    server.body = zipped({"ml-100k/u.data": text("ml-100k", RATINGS), "ratings.dat": "1::2::3::4\n"})
    with pytest.raises(DataError, match="holds no ml-1m/ratings"):
        fetch_from()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        "",
        "7::secret::3::10",
        "7::9::3",
        "7::9::3::10::1",
        "7::9::6::10",
        "7::9::3.5::10",
        "-7::9::3::10",
        "7\t9\t3\t10",
        "7::9::3::10 ",
        "٣::9::3::10",
        "4294967296::9::3::10",
        "7::9::3::9999999999999",
    ],
)
def test_a_malformed_line_is_named_by_its_number_alone(
    fetch_from: Any, server: Any, zipped: Zipped, tmp_path: Path, line: str
) -> None:
    server.body = zipped({"ml-1m/ratings.dat": f"1::2::3::4\n1::3::3::4\n{line}\n1::4::3::4\n"})
    with pytest.raises(DataError, match=r"1 of the 4 lines of ml-1m/ratings.dat .* line 3\)") as caught:
        fetch_from()
    assert "secret" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_archive_without_ratings(fetch_from: Any, server: Any, zipped: Zipped, tmp_path: Path) -> None:
    server.body = zipped({"ml-1m/ratings.dat": ""})
    with pytest.raises(DataError, match="1 of the 1 lines"):
        fetch_from()
    assert list(tmp_path.iterdir()) == []


def test_a_member_that_unpacks_to_too_much(
    fetch_from: Any, server: Any, zipped: Zipped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_MEMBER_BYTES", 100_000)
    server.body = zipped({"ml-1m/ratings.dat": "1::2::3::4\n" * 10_000})
    with pytest.raises(DataError, match="has 110000 bytes when unpacked; 100000 are the most"):
        fetch_from()
    # A header that tells less than there is does not help: no more than it tells is unpacked.
    server.body = server.body.replace((110_000).to_bytes(4, "little"), (1_100).to_bytes(4, "little"))
    with pytest.raises(DataError, match="could not be read as a zip file"):
        fetch_from()
    assert list(tmp_path.iterdir()) == []


def test_names_within_the_archive_lead_nowhere(
    fetch_from: Any, server: Any, zipped: Zipped, tmp_path: Path
) -> None:
    names = ["../evil", "../../evil", str(tmp_path / "evil"), "ml-1m/../../evil"]
    server.body = zipped(dict.fromkeys(names, "x") | {"ml-1m/ratings.dat": text("ml-1m", RATINGS)})
    path = fetch_from().path
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == [path]


def test_what_is_there_is_replaced_only_by_force_and_only_by_a_whole_set(
    fetch_from: Any, server: Any, zipped: Zipped
) -> None:
    server.body = zipped({"ml-1m/ratings.dat": text("ml-1m", RATINGS)})
    path = fetch_from().path
    old = path.read_bytes()
    with pytest.raises(OutputExists, match="--force"):
        fetch_from()
    assert len(server.asked) == 1
    with pytest.raises(DownloadError, match="checksum"):
        fetch_from(force=True, md5="0" * 32)
    assert path.read_bytes() == old
    server.body = zipped({"ml-1m/ratings.dat": text("ml-1m", RATINGS[:2])})
    assert fetch_from(force=True).n_interactions == len(pl.read_parquet(path)) == 2
    assert list(path.parent.iterdir()) == [path]


def test_folders_that_were_there_before_a_failure_stay(fetch_from: Any, server: Any, tmp_path: Path) -> None:
    (tmp_path / "sets").mkdir()
    server.status = 404
    with pytest.raises(DownloadError):
        fetch_from()
    assert list(tmp_path.rglob("*")) == [tmp_path / "sets"]


def test_a_folder_that_cannot_be_made(fetch_from: Any, server: Any, tmp_path: Path) -> None:
    (tmp_path / "sets").write_text("a file")
    with pytest.raises(WriteError, match="could not be made: Not a directory"):
        fetch_from()
    assert server.asked == []
    assert list(tmp_path.rglob("*")) == [tmp_path / "sets"]


@pytest.mark.parametrize("n_bytes", [0, 100, 600])
def test_a_full_disk(fetch_from: Any, server: Any, zipped: Zipped, tmp_path: Path, n_bytes: int) -> None:
    server.body = zipped({"ml-1m/ratings.dat": text("ml-1m", RATINGS)})
    assert 100 < len(server.body) < 600  # there is room for the download, not for what is made of it
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, old[1]))
    try:
        with pytest.raises(WriteError, match="could not be written: File too large"):
            fetch_from()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_leaves_nothing(fetch_from: Any, server: Any, zipped: Zipped, tmp_path: Path) -> None:
    server.body = zipped({"ml-1m/ratings.dat": text("ml-1m", RATINGS)})

    def interrupt(done: int, total: int | None) -> None:
        del done, total
        assert (tmp_path / "sets/here/ml-1m").is_dir()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_from(progress=interrupt)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(FOLDER is None, reason="ALTERASER_DATA does not name a folder with the data sets")
def test_the_real_ml_100k_comes_out_as_it_is(fetch_from: Any, server: Any, zipped: Zipped) -> None:
    real = pl.read_parquet(Path(str(FOLDER)) / "ml-100k" / "interactions.parquet")
    shuffled = real.sample(fraction=1, shuffle=True, seed=0)
    server.body = zipped({"ml-100k/u.data": shuffled.write_csv(include_header=False, separator="\t")})
    assert pl.read_parquet(fetch_from("ml-100k").path).equals(real)
