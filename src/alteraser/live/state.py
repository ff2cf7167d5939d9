"""`LiveState`: a model and its data, kept together while both change, and the residuals of its rows."""

from __future__ import annotations

import math
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from alteraser.data.changes import Change
from alteraser.data.csr import CSR
from alteraser.data.interactions import Interactions, Side
from alteraser.errors import SettingError
from alteraser.kernels.sparse import FixedFactors, RowWeights, SparseRows
from alteraser.live.disturbance import Disturbance
from alteraser.live.factors import times
from alteraser.live.preconditioner import Preconditioner
from alteraser.live.row_block import PendingRows, RowBlock
from alteraser.live.side import LossChange, SideState
from alteraser.models.base import Quadratic

QuadraticModel = TypeVar("QuadraticModel", bound=Quadratic)
Floats = NDArray[Any]
SIDES = (Side.USERS, Side.ITEMS)
# The share of a usual interaction's residual that rounding errors of the heaviest one may reach. Set by hand.
NOISE = 0.01


class LiveState(Generic[QuadraticModel]):
    """Both sides of a model, with the residuals of their rows as they are now, less what rows keep of them."""

    def __init__(self, model: QuadraticModel, data: Interactions, *, training_gap: float = 1.0) -> None:
        """With a training gap of 1 rows keep the residual that the original has on `data`, with 0 they aim at none."""
        model.check_belongs(data)
        weights = data.by(Side.USERS).weights
        self.total_weight = float(weights.sum(dtype=np.float64))  # of the data it began with
        self._heaviest = heaviest_weight(model, weights)
        # Whether all interactions weigh the same, so that some of them can stand for others.
        self.weights_are_alike = len(weights) > 0 and bool(weights.min() == weights.max())
        self._weight = float(weights[0]) if len(weights) else 1.0
        check_weights(model, weights, self._heaviest)
        self.sides = {side: SideState(model, side, data) for side in SIDES}
        self.h = self.sides[Side.USERS].factors.h
        self._preconditioners: dict[Side, Preconditioner] = {}
        # From here on the model stands on the vectors that change: the original's rows must not outlive a request.
        self._model = self._on(model, {side: state.factors.vectors for side, state in self.sides.items()})
        for side, state in self.sides.items():
            state.sum_traces(self.sides[side.other])
            self.preconditioner(side)
        if training_gap > 0:
            kept = {side: self.residual(side, np.arange(len(each))) for side, each in self.sides.items()}
            for side, each in self.sides.items():
                each.kept = kept[side] * kept[side].dtype.type(training_gap)
        self.disturbance = Disturbance(self.sides)

    @staticmethod
    def _on(model: QuadraticModel, vectors: dict[Side, Floats]) -> QuadraticModel:
        tables = {side.value: torch.from_numpy(values) for side, values in vectors.items()}
        return model.with_parameters({**model.parameters(), **tables})

    # Asking ----------------------------------------------------------------------------------------------------

    @property
    def model(self) -> QuadraticModel:
        """The model as it is now, on tables of its own."""
        return self._on(
            self._model, {side: state.factors.vectors.copy() for side, state in self.sides.items()}
        )

    @property
    def current(self) -> QuadraticModel:
        """The model as it is now, on the tables of the state, which go on changing: to be asked and let go."""
        return self._on(self._model, {side: state.factors.vectors for side, state in self.sides.items()})

    def audience(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        """The users who have an entry with any of some items."""
        return np.unique(self.sides[Side.ITEMS].entries.packed(items).columns).astype(np.int64)

    def seen(self, users: NDArray[np.int64]) -> CSR:
        """The entries of some users, row by row of all users; the others have none here."""
        named = np.unique(users)
        entries = self.sides[Side.USERS].entries.packed(named)
        counts = np.zeros(len(self.sides[Side.USERS]), np.int64)
        counts[named] = entries.stops - entries.starts
        return CSR(np.concatenate([[0], counts.cumsum()]), entries.columns, entries.weights)

    def vector_for(self, items: NDArray[np.int64], weights: NDArray[np.float32]) -> Floats:
        """The vector that a user with these entries and no others would have, the items being as they are."""
        theirs, kind = self.sides[Side.ITEMS].factors, self.h.dtype
        n = len(items)
        entries = SparseRows(np.zeros(1, np.int64), np.array([n]), np.arange(n, dtype=np.int32), weights)
        own = (each.astype(kind) for each in self._model.row_weights(Side.USERS, np.array([n])))
        fixed = FixedFactors(self.h * theirs.vectors[items], theirs.missing[items])
        block = RowBlock(entries, fixed, RowWeights(*own), theirs.gram.astype(kind))
        vector = block.residual(np.zeros((1, len(self.h)), kind))
        block.solve(vector)
        return np.ravel(vector)

    def scores_of(self, vector: Floats) -> Floats:
        """The scores of all items for a user with this vector."""
        return np.ravel(times((self.h * vector)[None], self.sides[Side.ITEMS].factors.vectors.T))

    @property
    def n_entries(self) -> int:
        return self.sides[Side.USERS].entries.n_entries

    def residual(self, side: Side, rows: NDArray[np.int64]) -> Floats:
        """What is still to be removed from some rows: their residuals, less what they keep."""
        return self.sides[side].residual(rows, self.sides[side.other])

    def whole_residual(self, side: Side, rows: NDArray[np.int64]) -> Floats:
        """Half of minus the gradient of the loss itself in some rows."""
        whole: Floats = self.residual(side, rows) + self.sides[side].kept[rows]
        return whole

    def row_block(self, side: Side, rows: NDArray[np.int64]) -> RowBlock:
        """Some rows as ridge problems of their own."""
        return self.sides[side].row_block(rows, self.sides[side.other])

    def row_problem(self, side: Side, rows: NDArray[np.int64]) -> PendingRows:
        """The problem of removing the residual of some rows, less what they keep, while the other side is fixed."""
        own = self.sides[side]
        start, kept = (torch.from_numpy(each[rows]) for each in (own.factors.vectors, own.kept))
        return PendingRows(self.row_block(side, rows), start, kept)

    def give_up_kept(self, side: Side, rows: NDArray[np.int64], share: float) -> None:
        """Makes a share of what some rows keep of their residuals something to be removed."""
        kept = self.sides[side].kept
        kept[rows] *= kept.dtype.type(1 - share)

    def gradient_norm(self) -> float:
        """The norm of the gradient that is still to be removed from all rows."""
        total = 0.0
        for side, each in self.sides.items():
            residual = self.residual(side, np.arange(len(each)))
            total += float(np.square(residual, dtype=np.float64).sum())
        return 2 * math.sqrt(total)

    def preconditioner(self, side: Side) -> Preconditioner:
        """The preconditioner of the rows of a side; it is made anew only where all rows are refined."""
        if side not in self._preconditioners:
            self._preconditioners[side] = Preconditioner.of(self.sides[side.other].factors)
        return self._preconditioners[side]

    def decrements(self, side: Side, rows: NDArray[np.int64], residual: Floats) -> NDArray[np.float64]:
        """About how much each row could lower the loss by itself, with this residual."""
        return self.preconditioner(side).decrements(self.sides[side], rows, residual)

    # Changing the data -----------------------------------------------------------------------------------------

    def apply(self, change: Change) -> float:
        """Gives pairs their weights after a change; returns by how much the loss falls as emptied rows become zero.

        A change that does not begin where the data is raises, and changes nothing.
        """
        self._check_begin(change)
        self.disturbance.clear()
        after = change.after.values[change.after.present]
        self.weights_are_alike = self.weights_are_alike and bool((after == self._weight).all())
        self._note_pairs(change)
        for side in SIDES:
            pairs = change.rows(side), change.rows(side.other)
            self.sides[side].entries.set(*pairs, change.before, change.after)
        empty = {side: self._weigh(side, np.unique(change.rows(side))) for side in SIDES}
        return sum(self._empty(side, rows) for side, rows in empty.items())

    def _note_pairs(self, change: Change) -> None:
        """Notes what the pairs of a change give to their rows' residuals and Hessians after it, less before it."""
        users, items = (self.sides[side].factors for side in SIDES)
        p, q = users.vectors[change.users], items.vectors[change.items]
        missing = users.missing[change.users] * items.missing[change.items]
        scores = (p * (self.h * q)).sum(1)
        excess, slope = np.zeros(len(p), p.dtype), np.zeros(len(p), p.dtype)
        for sign, weights in ((-1, change.before), (1, change.after)):
            some = weights.present.nonzero()[0]
            if len(some):
                of_some = weights.values[some] - missing[some]
                excess[some] += sign * of_some
                slope[some] += sign * (weights.values[some] - of_some * scores[some])
        gain = slope[:, None] * self.h
        for side, vectors_of_other in ((Side.USERS, q), (Side.ITEMS, p)):
            rows = change.rows(side)
            self.disturbance.note(side, rows, gain * vectors_of_other)
            squared_norms = self.sides[side.other].factors.squared_norms[change.rows(side.other)]
            np.add.at(self.sides[side].entry_traces, rows, excess * squared_norms)

    def _weigh(self, side: Side, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Gives some rows the weights of their new counts; returns those that have become empty."""
        state, factors = self.sides[side], self.sides[side].factors
        counts = state.entries.counts(rows)
        occupied = rows[counts > 0]
        missing, l2 = self._model.row_weights(side, counts)
        if (missing.astype(factors.missing.dtype) != factors.missing[rows]).any():
            before, residual = factors.missing[occupied], self.residual(side, occupied)
            factors.weigh(rows, missing, l2)
            self.disturbance.note_weights(side)
            self.disturbance.note(side, occupied, self.residual(side, occupied) - residual)
            self._note_entries(side, occupied, factors.missing[occupied] - before)
        else:
            before = factors.l2[occupied]
            factors.weigh(rows, missing, l2)
            risen = factors.l2[occupied] - before
            self.disturbance.note(side, occupied, -risen[:, None] * factors.vectors[occupied])
        if not counts.any():
            self.disturbance.drop_noted(side)  # nobody is there to take what they brought
        empty: NDArray[np.int64] = rows[counts == 0]
        return empty

    def _note_entries(self, side: Side, rows: NDArray[np.int64], risen: Floats) -> None:
        """Notes what entries of some rows give to the other side's, as the rows' weights in missing ones have risen."""
        own, other = self.sides[side], self.sides[side.other].factors
        entries = own.entries.packed(rows)
        places = np.repeat(np.arange(len(rows)), entries.stops - entries.starts)
        scaled = self.h * own.factors.vectors[rows][places]
        scores = (scaled * other.vectors[entries.columns]).sum(1)
        gains = (other.missing[entries.columns] * risen[places] * scores)[:, None] * scaled
        self.disturbance.note(side.other, entries.columns.astype(np.int64), gains)

    def _empty(self, side: Side, rows: NDArray[np.int64]) -> float:
        """Turns rows without entries to zero; returns by how much the loss falls."""
        state = self.sides[side]
        state.kept[rows] = 0
        state.entry_traces[rows] = 0
        return -self.move(side, rows, np.zeros((len(rows), len(self.h)), self.h.dtype)).whole

    def check(self, change: Change) -> None:
        """Raises where a change could not be followed; it may name rows that are yet to come."""
        self._check_begin(change)
        check_weights(self._model, change.after.values, self._heaviest)

    def _check_begin(self, change: Change) -> None:
        """Raises where a change does not begin with the weights that the data has."""
        known = (change.users < len(self.sides[Side.USERS])) & (change.items < len(self.sides[Side.ITEMS]))
        held = self.sides[Side.USERS].entries.weights_of(change.users[known], change.items[known])
        before = change.before
        wrong = (held.present != before.present[known]) | (held.values != before.values[known])
        n_wrong = int(wrong.sum()) + int(before.present[~known].sum())
        if n_wrong:
            raise ValueError(
                f"{n_wrong} of {len(change)} pairs are not in the data with the weights that the change begins with."
            )

    def grow(self, n_users: int, n_items: int) -> None:
        """Appends empty rows until there are so many users and items; nothing else changes."""
        if (n_users, n_items) == (self._model.n_users, self._model.n_items):
            return
        self._model = self._model.with_fixed_penalties()
        for side, n in ((Side.USERS, n_users), (Side.ITEMS, n_items)):
            more = n - len(self.sides[side])
            self.sides[side].grow(*self._model.row_weights(side, np.zeros(more, np.int64)))
        self.disturbance.grow()
        vectors = {side: state.factors.vectors for side, state in self.sides.items()}
        self._model = self._on(self._model, vectors)

    # Moving rows -----------------------------------------------------------------------------------------------

    def move(self, side: Side, rows: NDArray[np.int64], vectors: Floats) -> LossChange:
        """Turns some rows of a side into `vectors`."""
        if len(rows) == 0:
            return LossChange()
        self.disturbance.note_move(side, rows)
        kind = self.h.dtype
        return self.sides[side].move(
            rows, np.ascontiguousarray(vectors.astype(kind, copy=False)), self.sides[side.other]
        )

    def shift(self, side: Side, rows: NDArray[np.int64], by: Floats) -> None:
        """Moves some rows of a side; what that does to the loss is for the caller to know."""
        self.disturbance.note_move(side, rows)
        factors = self.sides[side].factors
        factors.place(rows, factors.vectors[rows] + by)

    def renew(self) -> None:
        """Computes anew what otherwise only follows: the traces of entries and the preconditioners."""
        for side, state in self.sides.items():
            state.sum_traces(self.sides[side.other])
        self._preconditioners = {}


def heaviest_weight(model: Quadratic, weights: NDArray[np.float32]) -> float:
    """The largest weight beside which the model's precision can still follow the residuals of usual interactions."""
    eps = torch.finfo(model.table(Side.USERS).dtype).eps
    weights = weights[weights > 0]
    if len(weights) == 0:
        return math.inf
    if float(weights.max()) * eps <= NOISE * float(weights.min()):  # the median need not be looked for
        return NOISE / eps * float(weights.min())
    return NOISE / eps * float(np.median(weights))


def check_weights(model: Quadratic, weights: NDArray[np.float32], heaviest: float) -> None:
    """Raises where single precision is too coarse to follow residuals: beside weights that tower above the others."""
    if len(weights) == 0 or float(weights.max()) <= heaviest:
        return
    dtype = model.table(Side.USERS).dtype
    most = NOISE / torch.finfo(dtype).eps
    raise SettingError(
        f"The largest weight is {most * float(weights.max()) / heaviest:.1g} times the median weight, and the model "
        f"is in {str(dtype).removeprefix('torch.')}, where {most:.1g} times is too much to be followed. "
        f"Scale the weights (take their logarithm, say), or train in double precision (dtype=torch.float64; "
        f"--precision double)."
    )
