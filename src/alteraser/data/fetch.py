"""Named data sets fetched from where they are published: whole, checked and in place, or nothing."""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse, IncompleteRead
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

import polars as pl

from alteraser.data.archives import ARCHIVES, MAX_ARCHIVE_BYTES, read_ratings
from alteraser.data.datasets import DATASETS, dataset_places
from alteraser.data.writing import atomic_file
from alteraser.errors import DatasetNotFound, DownloadError, SettingError, WriteError

GROUPLENS = "https://files.grouplens.org/datasets/movielens/"
URL_VARIABLE = "ALTERASER_DATASET_URL"

# Told the bytes that have come and, if the server said it, how many there are.
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class Fetched:
    """What was fetched, from where, and the file it was written to."""

    name: str
    url: str
    path: Path
    n_interactions: int


def fetch_dataset(
    name: str,
    *,
    data_dir: str | Path | None = None,
    force: bool = False,
    base_url: str | None = None,
    md5: str | None = None,
    timeout: float = 30.0,
    progress: Progress | None = None,
) -> Fetched:
    """Download a data set to the first folder `load_dataset` looks in; its terms are `ARCHIVES[name].terms`.

    It comes from `base_url`, else $ALTERASER_DATASET_URL, else GroupLens. Whatever fails, what was there before
    is unchanged. `md5` stands for the published checksum; `timeout` is how long the server may be silent, in seconds.
    """
    if name not in ARCHIVES:
        raise DatasetNotFound(f"{name!r} cannot be fetched; the names are {', '.join(ARCHIVES)}.")
    archive = ARCHIVES[name]
    url = _address(base_url or os.environ.get(URL_VARIABLE) or GROUPLENS, archive.file)
    path = dataset_places(name, data_dir)[0]
    # The download has no name, so that not even a power cut leaves it behind.
    with (
        _new_folder(path.parent),
        atomic_file(path, force=force) as staged,
        tempfile.TemporaryFile(dir=path.parent) as file,
    ):
        came = _download(url, file, timeout=timeout, progress=progress)
        if came != (md5 or archive.md5):
            raise DownloadError(
                f"{url} is not the published file: its MD5 checksum is {came}, wanted is {md5 or archive.md5}. "
                f"Try again, from another network if it stays so."
            )
        ratings = read_ratings(file, archive)
        if DATASETS[name].time == "time_rank":
            ratings = ratings.with_columns(time_rank=_time_rank())
        ratings.sort("user_id", "item_id").write_parquet(staged)
    return Fetched(name, url, path, len(ratings))


def _time_rank() -> pl.Expr:
    """The place of each rating in its user's time, 0 the oldest; equal times stay in the order of the file."""
    return (pl.col("timestamp").rank("ordinal").over("user_id") - 1).cast(pl.Int32)


def _address(base_url: str, file: str) -> str:
    with suppress(ValueError):
        parts = urlsplit(base_url)
        if parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment):
            return f"{base_url.rstrip('/')}/{file}"
    raise SettingError(
        f"{base_url!r} is not an address to download from; one like {GROUPLENS} is wanted "
        f"(base_url= or ${URL_VARIABLE})."
    )


@contextmanager
def _new_folder(folder: Path) -> Iterator[None]:
    """The folder is there within the block; if the block fails, what was made for it goes again."""
    missing: list[Path] = []
    try:
        try:
            missing += [each for each in (folder, *folder.parents) if not each.exists()]
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WriteError(
                f"The folder {folder} could not be made: {error.strerror}. Choose another with --data-dir."
            ) from None
        yield
    except BaseException:
        for each in missing:
            with suppress(OSError):
                each.rmdir()  # only if it is empty
        raise


def _download(url: str, file: BinaryIO, *, timeout: float, progress: Progress | None) -> str:
    """Write what lies at the address to the file; its MD5."""
    digest = hashlib.md5(usedforsecurity=False)  # the checksum GroupLens publishes
    done = 0
    with closing(_open(url, timeout)) as response:
        total = response.length
        while True:
            with _network(url):
                chunk = response.read1(2**16)
            if not chunk:
                break
            done += len(chunk)
            if max(done, total or 0) > MAX_ARCHIVE_BYTES:
                raise DownloadError(
                    f"{url} has more than {MAX_ARCHIVE_BYTES} bytes, which the published file has not. "
                    f"Check the address."
                )
            digest.update(chunk)
            file.write(chunk)
            if progress is not None:
                progress(done, total)
    if total is not None and done < total:
        raise DownloadError(
            f"{url} could not be downloaded: the connection broke off after {done} of {total} bytes. Try again."
        )
    file.seek(0)
    return digest.hexdigest()


def _open(url: str, timeout: float) -> HTTPResponse:
    # Not `urlopen`, which would also follow a redirection to ftp.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.UnknownHandler,
    ):
        opener.add_handler(handler())
    with _network(url):
        response: HTTPResponse = opener.open(url, timeout=timeout)
    return response


@contextmanager
def _network(url: str) -> Iterator[None]:
    """What the network does wrong as `DownloadError`, so that it is not taken for the disk's doing."""
    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()
        raise DownloadError(
            f"{url} could not be downloaded: the server answered with status {error.code}. Check the address, "
            f"or try later."
        ) from None
    except (OSError, HTTPException, ValueError) as error:
        raise DownloadError(
            f"{url} could not be downloaded: {_reason(error)}. Check the network, and the proxy if there is one, "
            f"and try again."
        ) from None


def _reason(error: BaseException) -> str:
    if isinstance(error, urllib.error.URLError):
        error = error.reason if isinstance(error.reason, BaseException) else error
    if isinstance(error, TimeoutError):
        return "the server did not answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "the connection broke off" if isinstance(error, IncompleteRead) else type(error).__name__
