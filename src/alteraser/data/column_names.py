"""Which column is what: names that are usual for users and items, places where there is no header, ratings."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from alteraser.data.read_options import ReadOptions
from alteraser.errors import ColumnError

log = logging.getLogger(__name__)

# Compared without capitals, underscores, dashes and blanks, and without "id" at the end.
_USUAL = {
    "user": {"user", "uid", "customer", "member", "reviewer", "account", "visitor"},
    "item": {
        *("item", "iid", "product", "movie", "book", "song", "track", "artist", "article", "video", "game"),
        *("business", "recipe", "asin", "isbn"),
    },
}
_USUAL_RATINGS = ("rating", "ratings", "starrating", "stars", "score")  # the first that is there
# By these names, too, a header is known to be one. Few words: in a file without a header they would be ids.
_TOLD = {
    *("user", "userid", "uid", "customer", "member"),
    *("item", "itemid", "iid", "product", "movie", "movieid"),
    *("rating", "ratings", "score", "stars", "weight", "count", "plays"),
    *("timestamp", "time", "timerank", "date", "datetime"),
}


def resolved(read_options: ReadOptions, there: Sequence[str]) -> ReadOptions:
    """The options with the names of columns that are there in place of usual names and of places.

    A name that is not there stays, for `require_columns` to refuse. Raises `ColumnError` where two columns could be
    meant.
    """
    if read_options.header:
        given = {"user": read_options.user, "item": read_options.item}
        found = {setting: _usual_column(setting, name, there) for setting, name in given.items()}
    else:
        found = _places(read_options, there)
    ratings = _ratings(read_options, there)
    if read_options.rating is None and read_options.min_rating is not None and ratings is not None:
        found["rating"] = ratings
    names = read_options.with_options(found)
    changed = (names.user, names.item) != (read_options.user, read_options.item)
    if changed and {names.user, names.item} <= set(there):
        log.info("Users are in the column %s, items in the column %s.", names.user, names.item)
    return names


def resolved_ids(name: str, there: Sequence[str]) -> str:
    """The column for ids that would be called `name`, as user_id, among those that are there."""
    return _usual_column(name.removesuffix("_id"), name, there)


def _usual_column(setting: str, given: str, there: Sequence[str]) -> str:
    """The column that is given or, where that is the default and not there, the one of another usual name."""
    default = f"{setting}_id"
    if given != default or default in there:
        return given
    meant = [name for name in there if _plain(name) in _USUAL[setting]]
    if len(meant) > 1:
        raise ColumnError(
            f"There is no column {default!r}, and {' and '.join(meant)} could both be meant for the {setting}. "
            f"Name the right one with {setting}= (--{setting}-column)."
        )
    return meant[0] if meant else given


def _places(read_options: ReadOptions, there: Sequence[str]) -> dict[str, str]:
    """The names of columns that are given by their places; users, items and ratings are the first three by custom."""
    found = {}
    usual = {"user_id": "1", "item_id": "2"}
    if "3" not in read_options.columns.values():  # else it is something else
        usual["rating"] = "3"
    named = read_options.columns | ({} if read_options.rating is None else {"rating": read_options.rating})
    for setting, given in named.items():
        place = usual.get(given, given)
        if given in there:
            continue
        if not (place.isdecimal() and 1 <= int(place) <= len(there)):
            raise ColumnError(
                f"{setting} is {given!r}; without a header a column is named by its place, from 1 to {len(there)}. "
                f"Name it with {setting}= (--{setting}-column), or leave header=False (--no-header) out."
            )
        found[setting] = there[int(place) - 1]
    return found


def _ratings(read_options: ReadOptions, there: Sequence[str]) -> str | None:
    """The column of the ratings: the one that is named, or called so."""
    if read_options.rating is not None:
        return read_options.rating
    return next((name for usual in _USUAL_RATINGS for name in there if _bare(name) == usual), None)


def perhaps_ratings(read_options: ReadOptions, there: Sequence[str]) -> str | None:
    """The third column of a file without a header, if nobody said what it is nor which ratings count."""
    known = {*read_options.columns.values(), read_options.rating}
    decided = read_options.header or read_options.min_rating is not None or read_options.any_rating
    return None if decided or len(there) < 3 or there[2] in known else there[2]


def _check_ratings(read_options: ReadOptions, there: Sequence[str]) -> None:
    ratings = _ratings(read_options, there)
    decided = read_options.min_rating is not None or read_options.any_rating
    if ratings is not None and not decided and ratings not in (read_options.weight, read_options.time):
        raise ColumnError(
            f"There are ratings (column {ratings}), and a low one is no sign that somebody likes an item. Say which "
            f"count: min_rating= (--min-rating X) drops those below X, any_rating=True (--any-rating) takes all."
        )


def require_columns(there: Sequence[str], read_options: ReadOptions) -> None:
    """Raise `ColumnError` if a column that the read options name is not among those that are there.

    Also where there are ratings of which nobody said which count.
    """
    for setting, column in read_options.columns.items():
        if column not in there:
            raise ColumnError(
                f"There is no column {column!r} for the {setting}; {names_told(there, read_options.columns.values())}. "
                f"Name the right one with {setting}= (--{setting}-column)."
            )
    _check_ratings(read_options, there)


def names_told(there: Iterable[object], wanted: Iterable[str]) -> str:
    """The columns that are there, for a message; only how many if they could be ids of a file without a header."""
    names = [str(name) for name in there]
    known = {*wanted}
    if any(name in known or _is_usual(name) for name in names):
        return f"the columns are {', '.join(names)}"
    return f"none of the {len(names)} columns has a usual name, so the data may lack a header"


def _is_usual(name: str) -> bool:
    return name.endswith(("_id", "Id")) or name.lower().replace("_", "") in _TOLD


def names_side(name: str) -> bool:
    """Whether a column of this name usually holds users or items."""
    return any(_plain(name) in usual for usual in _USUAL.values())


def _bare(name: str) -> str:
    return "".join(sign for sign in name.lower() if sign not in "_- ")


def _plain(name: str) -> str:
    plain = _bare(name)
    return plain if plain in ("uid", "iid") else plain.removesuffix("id")
