"""The embedded data sets: power-law users and items around planted tastes, with names a person can read."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alteraser.data.interactions import Interactions
from alteraser.errors import SettingError

# Two word lists per topic; an item is one word of each, so that ten and ten make a hundred names.
_WORDS = {
    "Astronomy": (
        "Backyard,Winter,Southern,Deep-sky,Radio,Lunar,Pocket,Solar,Binocular,Amateur",
        "star atlas,log book,telescope,eclipse diary,comet hunt,planet watch,tour,album,almanac,meteor count",
    ),
    "Baking": (
        "Rye,Spelt,Walnut,Honey,Cinnamon,Overnight,Rustic,Olive,Seeded,Buttermilk",
        "sourdough,rolls,brioche,focaccia,loaf,scones,flatbread,crackers,buns,bagels",
    ),
    "Birding": (
        "Coastal,Garden,Alpine,Marsh,Woodland,Dawn,Winter,Island,River,Urban",
        "warblers,owls,waders,finches,raptors,herons,swifts,woodpeckers,gulls,thrushes",
    ),
    "Chess": (
        "Sicilian,French,Queen's,King's,Dutch,Catalan,English,Scotch,Vienna,Slav",
        "traps,endgames,gambits,miniatures,blunders,sacrifices,pawn plans,classics,puzzles,repertoire",
    ),
    "Cycling": (
        "Alpine,Coastal,Gravel,Night,Winter,City,Forest,Island,Weekend,Mountain",
        "tour,climb,time trial,brevet,commute,descent,relay,loop,sprint,touring kit",
    ),
    "Film noir": (
        "Midnight,Silver,Crooked,Velvet,Broken,Harbour,Scarlet,Silent,Borrowed,Rainy",
        "alibi,witness,letter,boulevard,detective,getaway,confession,mirror,stranger,payroll",
    ),
    "Gardening": (
        "Shade,Rooftop,Heirloom,Winter,Kitchen,Cottage,Balcony,Wild,Walled,Orchard",
        "tomatoes,herbs,roses,ferns,beans,squash,bulbs,hedges,compost,lettuce",
    ),
    "Hiking": (
        "Ridge,Lakeside,Desert,Canyon,Glacier,Valley,Sunrise,Moorland,Waterfall,Border",
        "trail,traverse,hut walk,scramble,loop,pilgrimage,night hike,crossing,summit route,day walk",
    ),
    "Jazz": (
        "Blue,Midnight,Uptown,Smoky,Slow,Modal,Latin,Parisian,Lonesome,Sunday",
        "quartet,standards,sessions,trumpet,ballads,trio,improvisations,big band,nocturne,saxophone",
    ),
    "Pottery": (
        "Celadon,Raku,Salt-glazed,Speckled,Coiled,Wood-fired,Porcelain,Terracotta,Ash-glazed,Carved",
        "vase,teapot,bowls,tiles,mugs,platter,lantern,jug,planter,butter dish",
    ),
    "Science fiction": (
        "Quiet,Drowned,Last,Glass,Orbital,Borrowed,Second,Frozen,Paper,Distant",
        "colony,engine,starship,signal,archive,moon,empire,machine,horizon,frontier",
    ),
    "Woodwork": (
        "Oak,Walnut,Dovetailed,Folding,Cherry,Steam-bent,Pine,Carved,Turned,Maple",
        "stool,bookcase,workbench,cradle,jewel box,ladder,rocking chair,picture frame,chest,spoon rack",
    ),
}
TOPICS = tuple(_WORDS)
_ELSEWHERE = 0.12  # the share of a user's interactions outside the planted tastes
_EXHAUSTED = 0.8  # no user takes more than this share of the items in their tastes


@dataclass(frozen=True, eq=False, repr=False)
class Synthetic:
    """The interactions and what was planted: the topic of each item, the topics each user likes, by id."""

    data: Interactions
    topics_of_items: dict[str, str]
    tastes_of_users: dict[str, tuple[str, ...]]


def topic_of(item_id: str) -> str:
    """The topic in an item's name: "Baking" of "Baking: Rye sourdough"."""
    return item_id.split(":", 1)[0]


def synthetic(
    rng: np.random.Generator, *, n_users: int = 1500, n_items: int = 600, mean_interactions: float = 40
) -> Synthetic:
    """A data set drawn around planted tastes; the same for the same generator state and sizes.

    Each user likes one to three of twelve topics; about an eighth of what they do lies elsewhere. Activity
    and popularity follow power laws. Small sizes may reach a lower mean than asked for.
    """
    if n_users < 1 or n_items < 4 * len(TOPICS) or mean_interactions < 1:
        raise SettingError(
            f"A synthetic set of {n_users} users, {n_items} items and {mean_interactions} interactions per "
            f"user cannot be drawn; at least 1 user, {4 * len(TOPICS)} items and 1 interaction are wanted."
        )
    names, topics = _items(rng, n_items)
    popularity = _popularity(rng, topics)
    likes = _tastes(rng, n_users)
    activity = _activity(rng, likes, np.bincount(topics, minlength=len(TOPICS)), mean_interactions)
    users, items = _draw(rng, likes, activity, topics, popularity)
    times = rng.integers(0, 366 * 24 * 3600, len(users))  # 2024, a leap year
    user_ids = [f"user-{number:04d}" for number in range(n_users)]
    events = pl.DataFrame(
        {
            "user": pl.Series(user_ids).gather(users),
            "item": pl.Series(names).gather(items),
            "time": pl.Series(np.datetime64("2024-01-01T00:00:00", "us") + times.astype("timedelta64[s]")),
        }
    ).sort("user", "time", "item")
    return Synthetic(
        data=Interactions.from_columns(events["user"], events["item"], times=events["time"]),
        topics_of_items={name: topic_of(name) for name in names},
        tastes_of_users={
            user_id: tuple(TOPICS[topic] for topic in np.flatnonzero(row))
            for user_id, row in zip(user_ids, likes, strict=True)
        },
    )


def _items(rng: np.random.Generator, n_items: int) -> tuple[list[str], NDArray[np.int64]]:
    """Unique names and their topics, spread evenly; a hundred per topic before a name needs a part number."""
    topics = np.arange(n_items) % len(TOPICS)
    names = [""] * n_items
    for number, (topic, (firsts, seconds)) in enumerate(_WORDS.items()):
        pairs = [
            f"{topic}: {first} {second}" for first, second in product(firsts.split(","), seconds.split(","))
        ]
        order = rng.permutation(len(pairs))
        for rank, item in enumerate(np.flatnonzero(topics == number)):
            part, place = divmod(rank, len(pairs))
            names[item] = pairs[order[place]] + (f", part {part + 1}" if part else "")
    return names, topics


def _popularity(rng: np.random.Generator, topics: NDArray[np.int64]) -> NDArray[np.float64]:
    """A power law within each topic, over topics that are themselves not equally popular."""
    popularity = np.empty(len(topics))
    of_topic = rng.permutation(np.arange(1, len(TOPICS) + 1) ** -0.4)
    for topic in range(len(TOPICS)):
        mine = np.flatnonzero(topics == topic)
        popularity[mine] = of_topic[topic] * rng.permutation(np.arange(1, len(mine) + 1) ** -0.8)
    popularity /= popularity.sum()
    return popularity


def _tastes(rng: np.random.Generator, n_users: int) -> NDArray[np.bool_]:
    """Which topics each user likes: one, two or three."""
    n_liked = rng.choice([1, 2, 3], size=n_users, p=[0.3, 0.4, 0.3])
    order = rng.random((n_users, len(TOPICS))).argsort(axis=1).argsort(axis=1)
    liked: NDArray[np.bool_] = order < n_liked[:, None]
    return liked


def _activity(
    rng: np.random.Generator, likes: NDArray[np.bool_], sizes: NDArray[np.int64], mean: float
) -> NDArray[np.int64]:
    """How much each user does: a power law, cut where the items of their tastes run out."""
    most = np.maximum(1, np.floor(_EXHAUSTED * (likes @ sizes)))
    raw = (1 + rng.pareto(1.8, len(likes))) * likes.sum(axis=1)
    low, high = 0.0, mean * float(most.max())
    for _ in range(60):  # the cut lowers the mean, so the scale that gives it is searched for
        scale = (low + high) / 2
        low, high = (scale, high) if np.clip(scale * raw, 2, most).mean() < mean else (low, scale)
    activity: NDArray[np.int64] = np.clip(np.rint(high * raw), 2, most).astype(np.int64)
    return activity


def _draw(
    rng: np.random.Generator,
    likes: NDArray[np.bool_],
    activity: NDArray[np.int64],
    topics: NDArray[np.int64],
    popularity: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Distinct items for each user, by popularity, inside and outside their tastes."""
    elsewhere = rng.binomial(activity, _ELSEWHERE)
    inside = _distinct(rng, likes, activity - elsewhere, topics, popularity)
    outside = _distinct(rng, ~likes, elsewhere, topics, popularity)
    users, items = np.divmod(np.concatenate([inside, outside]), len(topics))
    return users, items


def _distinct(
    rng: np.random.Generator,
    among: NDArray[np.bool_],
    n_wanted: NDArray[np.int64],
    topics: NDArray[np.int64],
    popularity: NDArray[np.float64],
) -> NDArray[np.int64]:
    """For each user so many distinct items of some topics, as user · n_items + item.

    The first different ones among draws with repetition are draws without, so draws go on until there are enough.
    """
    by_topic = np.argsort(topics, kind="stable")
    ends = np.cumsum(popularity[by_topic])
    masses = np.bincount(topics, popularity)
    starts, reaches = np.cumsum(masses) - masses, np.cumsum(among * masses, axis=1)
    found, missing, tries = np.empty(0, np.int64), n_wanted.copy(), 2
    while missing.any():
        users = np.repeat(np.arange(len(missing)), tries * missing)
        tries *= 2  # the last ones of a user are rarely drawn
        draws = rng.random(len(users)) * reaches[users, -1]
        chosen = (reaches[users] <= draws[:, None]).sum(axis=1)
        within = draws - (reaches[users, chosen] - masses[chosen])
        places = np.searchsorted(ends, starts[chosen] + within, side="right")
        pairs = users * len(topics) + by_topic[np.minimum(places, len(topics) - 1)]
        known = pl.Series(np.concatenate([found, pairs]))
        new = np.flatnonzero(known.is_first_distinct().to_numpy()[len(found) :])
        owners = users[new]
        rank = np.arange(len(new)) - np.searchsorted(owners, owners)
        new = new[rank < missing[owners]]
        found = np.concatenate([found, pairs[new]])
        missing -= np.bincount(users[new], minlength=len(missing))
    return found
