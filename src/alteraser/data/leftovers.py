"""Temporary names of a run that writes, and what is left of them when a run was killed.

Beside a place called `model` a run has, with twelve random hexadecimal digits,

    .model.<digits>.lock   locked as long as the run lives; made first, removed last
    .model.<digits>.tmp    what is being written
    .model.<digits>.old    a folder that is being replaced, until it is removed

A lock that can be had belongs to a run that has ended. Disks without locks exist: there a run writes without one, and
leftovers are named, not removed, since nobody can tell whether they are in use.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from alteraser.errors import WriteError


@dataclass(frozen=True)
class Names:
    """The temporary names of one run."""

    new: Path
    old: Path
    lock: Path

    @classmethod
    def beside(cls, place: Path, digits: str) -> Names:
        """Names in the folder of the place itself, so that renaming never crosses a disk."""
        return cls(*(place.with_name(f".{place.name}.{digits}.{end}") for end in ("tmp", "old", "lock")))


@contextmanager
def own_names(place: Path) -> Iterator[Names]:
    """Names that no other run has and, as long as the block runs, none takes for leftovers."""
    while True:
        names = Names.beside(place, secrets.token_hex(6))
        with names.lock.open("x") as file:
            with suppress(OSError):  # a disk without locks
                fcntl.flock(file, fcntl.LOCK_EX)
            if not names.lock.exists():  # another run cleaned it up before it was locked
                continue
            try:
                yield names
            finally:
                with suppress(OSError):
                    names.lock.unlink()
            return


def clean_up(place: Path) -> None:
    """Remove what runs that were killed left beside `place`, and raise if that cannot be done.

    A run that was killed between setting the old folder aside and putting the new one in place has done nothing: the
    old one is put back. Once the new one was in place the old one only had to go, and goes now, even if the place is
    empty again.
    """
    pattern = re.compile(rf"\.{re.escape(place.name)}\.([0-9a-f]{{12}})\.(?:tmp|old|lock)")
    found = {match[1] for each in place.parent.iterdir() if (match := pattern.fullmatch(each.name))}
    for names in (Names.beside(place, digits) for digits in sorted(found)):
        try:
            with _ended(names.lock) as ended:
                if ended:
                    if names.old.exists() and names.new.exists() and not place.exists():
                        names.old.rename(place)
                    for each in (names.old, names.new, names.lock):
                        remove(each)
        except OSError as error:
            left = next((each for each in (names.old, names.new) if each.exists()), names.lock)
            raise WriteError(
                f"{left} is left from a run that was broken off, and could not be removed: {error.strerror}. If no "
                f"other run is writing there now, remove it by hand, as it may hold what was to be forgotten."
            ) from None


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it, if it is there."""
    with suppress(FileNotFoundError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


@contextmanager
def _ended(lock: Path) -> Iterator[bool]:
    """Whether the run with this lock has ended; if so the block has the lock, and no other cleans up meanwhile."""
    try:
        file = os.open(lock, os.O_RDWR)  # a network disk locks only what may be written
    except FileNotFoundError:
        yield True
        return
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ended = True
        except BlockingIOError:
            ended = False
        yield ended
    finally:
        os.close(file)
