"""Entries of sparse rows found, changed, removed and put in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from alteraser.kernels.jit import compiled, inner
from alteraser.kernels.sparse import SparseRows


@compiled
def find_entries(
    rows: NDArray[np.int64], columns: NDArray[np.int32], entries: SparseRows
) -> NDArray[np.int64]:
    """Returns where the entry of each pair stands, -1 where there is none."""
    places = np.empty(len(rows), np.int64)
    for i in range(len(rows)):
        place, found = _place(rows[i], columns[i], entries)
        places[i] = place if found else -1
    return places


@compiled
def set_entries(
    rows: NDArray[np.int64],
    columns: NDArray[np.int32],
    present: NDArray[np.bool_],
    weights: NDArray[np.float32],
    entries: SparseRows,
) -> None:
    """Gives each pair its weight, or removes it, without a trace, where it is not to be present.

    A row must have room behind it for the pairs that are new.
    """
    stops, held, given = entries.stops, entries.columns, entries.weights
    for i in range(len(rows)):
        row = rows[i]
        place, found = _place(row, columns[i], entries)
        if not found:
            if not present[i]:
                continue
            for entry in range(stops[row], place, -1):
                held[entry] = held[entry - 1]
                given[entry] = given[entry - 1]
            held[place] = columns[i]
            stops[row] += 1
        if present[i]:
            given[place] = weights[i]
            continue
        last = stops[row] - 1
        for entry in range(place, last):
            held[entry] = held[entry + 1]
            given[entry] = given[entry + 1]
        held[last] = 0
        given[last] = 0
        stops[row] = last


@inner
def _place(row: int, column: int, entries: SparseRows) -> tuple[int, bool]:
    """Where a pair stands or would stand in its row, and whether it is there."""
    first, last = entries.starts[row], entries.stops[row]
    place = first + np.searchsorted(entries.columns[first:last], column)
    return place, place < last and entries.columns[place] == column
