"""Public archives of ratings: their terms, how to tell that one is whole, and how to read its ratings."""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from dataclasses import dataclass
from typing import BinaryIO

import polars as pl

from alteraser.errors import DataError

# The real ones have 6 MB and 25 MB; more than this is something else, and is not taken in.
MAX_ARCHIVE_BYTES = 64 * 2**20
MAX_MEMBER_BYTES = 128 * 2**20

_COLUMNS = pl.Schema({"user_id": pl.Int32, "item_id": pl.Int32, "rating": pl.Int8, "timestamp": pl.Int64})
_FIELDS = ("([0-9]{1,9})", "([0-9]{1,9})", "([1-5])", "([0-9]{1,12})")


@dataclass(frozen=True, kw_only=True)
class Archive:
    """A zip file of a public data set; `member` holds a rating per line: user, item, rating, seconds."""

    file: str
    md5: str
    member: str
    separator: str
    terms: str


GROUPLENS_TERMS = (
    "Its terms in short; the whole is in the README that GroupLens publishes with it:\n"
    "- for research; not for commercial use without permission from GroupLens\n"
    "- not to be redistributed without separate permission\n"
    "- no endorsement by the University of Minnesota or GroupLens may be stated or implied\n"
    "- publications cite: F. Maxwell Harper and Joseph A. Konstan. 2015. The MovieLens Datasets: History and\n"
    "  Context. ACM Transactions on Interactive Intelligent Systems 5, 4, Article 19. doi 10.1145/2827872"
)
ARCHIVES = {
    "ml-1m": Archive(
        file="ml-1m.zip",
        md5="c4d9eecfca2ab87c1945afe126590906",
        member="ml-1m/ratings.dat",
        separator="::",
        terms=f"MovieLens 1M, from GroupLens. {GROUPLENS_TERMS}",
    ),
    "ml-100k": Archive(
        file="ml-100k.zip",
        md5="0e33842e24a9c977be4e0107933c0723",
        member="ml-100k/u.data",
        separator="\t",
        terms=f"MovieLens 100K, from GroupLens. {GROUPLENS_TERMS}",
    ),
}


def read_ratings(file: BinaryIO, archive: Archive) -> pl.DataFrame:
    """The ratings in a zip file, in its order: columns user_id, item_id, rating, timestamp.

    Nothing is unpacked to the disk, so no name within the archive can lead anywhere.
    """
    lines = pl.Series(_member(file, archive).decode("latin-1").removesuffix("\n").split("\n"))
    pattern = f"^{re.escape(archive.separator).join(_FIELDS)}\r?$"
    ratings = lines.str.extract_groups(pattern).struct.rename_fields(list(_COLUMNS)).struct.unnest()
    bad = ratings["user_id"].is_null()
    if (n_bad := int(bad.sum())) > 0:
        raise DataError(
            f"{n_bad} of the {len(lines)} lines of {archive.member} in {archive.file} are not a user, an item, a "
            f"rating from 1 to 5 and a time with {archive.separator!r} between them (the first is line "
            f"{int(bad.arg_true()[0]) + 1}). It is not the published file; fetch it from elsewhere."
        )
    return ratings.cast(_COLUMNS)


def _member(file: BinaryIO, archive: Archive) -> bytes:
    try:
        with zipfile.ZipFile(file) as opened:
            there = opened.getinfo(archive.member)
            if there.file_size > MAX_MEMBER_BYTES:
                raise DataError(
                    f"{archive.member} in {archive.file} has {there.file_size} bytes when unpacked; "
                    f"{MAX_MEMBER_BYTES} are the most that is read. It is not the published file."
                )
            return opened.read(there)  # never more than `file_size`, whatever the packed bytes hold
    except KeyError:
        raise DataError(f"{archive.file} holds no {archive.member}. It is not the published file.") from None
    # RuntimeError and its child NotImplementedError: a password, a way of packing that is not known.
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        EOFError,
        OSError,
        RuntimeError,
        ValueError,
    ) as error:
        raise DataError(
            f"{archive.file} could not be read as a zip file ({type(error).__name__}). Fetch it again."
        ) from None
