"""The innermost step of all dense arithmetic: adds outer products to a tile of a matrix, held in vector registers.

Written as LLVM instructions, because no loop in Python makes the compiler keep a tile in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils as untyped_cgutils
from numba.extending import intrinsic

from alteraser.kernels.jit import compiled

cgutils: Any = untyped_cgutils
# AVX2 has 16 vector registers of 32 bytes: a block of 4 rows by 2 vectors takes 8 of them, and what it gains 3 more.
# A tile is one such block in float32 and two in float64, so that both pad their rows alike.
TILE_ROWS = 4
TILE_COLUMNS = 16
_BLOCK_VECTORS = 2
_VECTOR_BYTES = 32
_LINE_BYTES = 64  # what a processor loads at once, on x86 and most ARM


@compiled
def padded(dim: int) -> int:
    """Rounds a number of columns up to whole tiles: the stride between the rows of a matrix."""
    return -(-dim // TILE_COLUMNS) * TILE_COLUMNS


def _tile_kernel(*, subtract: bool) -> Any:
    def typed(
        context: Any,
        tile: Any,
        tile_at: Any,
        left: Any,
        left_at: Any,
        right: Any,
        right_at: Any,
        stride: Any,
        n: Any,
    ) -> tuple[Any, Callable[..., Any]]:
        del context
        signature = types.void(tile, tile_at, left, left_at, right, right_at, stride, n)
        return signature, lambda *given: _emit(*given, subtract=subtract)

    return intrinsic(typed)


def _emit(context: Any, builder: Any, signature: Any, arguments: Any, *, subtract: bool) -> Any:
    """Writes the instructions of tile[r, c] ±= Σ_k left[k, r]·right[k, c], k < n.

    All three lie in flat arrays from `tile_at`, `left_at` and `right_at` on, their rows `stride` apart.
    """
    element = context.get_value_type(signature.args[0].dtype)
    align = context.get_abi_sizeof(element)  # a tile may begin anywhere: only single numbers are aligned
    lanes = _VECTOR_BYTES // align
    vector, index = ir.VectorType(element, lanes), ir.IntType(64)
    multiply_add = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fmuladd.v{lanes}f{8 * align}"
    )

    def array(place: int) -> Any:
        kind = signature.args[place]
        return context.make_array(kind)(context, builder, arguments[place]).data

    def whole(place: int) -> Any:
        return context.cast(builder, arguments[place], signature.args[place], types.int64)

    def pointer(data: Any, at: Any) -> Any:
        return builder.bitcast(builder.gep(data, [at]), vector.as_pointer())

    def load(data: Any, at: Any) -> Any:
        return builder.load(pointer(data, at), align=align)

    tile, left, right = array(0), array(2), array(4)
    tile_at, left_at, right_at, stride, n = whole(1), whole(3), whole(5), whole(6), whole(7)
    width = _BLOCK_VECTORS
    for block in range(0, TILE_COLUMNS, width * lanes):
        places = [
            [
                builder.add(tile_at, builder.add(builder.mul(stride, index(r)), index(block + c * lanes)))
                for c in range(width)
            ]
            for r in range(TILE_ROWS)
        ]
        sums = [[cgutils.alloca_once_value(builder, load(tile, at)) for at in row] for row in places]
        with cgutils.for_range(builder, n, intp=index) as loop:
            begin = builder.mul(loop.index, stride)
            columns = [
                load(right, builder.add(right_at, builder.add(begin, index(block + c * lanes))))
                for c in range(width)
            ]
            for r in range(TILE_ROWS):
                place = builder.add(left_at, builder.add(begin, index(r)))
                number = builder.load(builder.gep(left, [place]))
                if subtract:
                    number = builder.fneg(number)
                spread = _spread(builder, number, vector)
                for c in range(width):
                    total = builder.call(multiply_add, [spread, columns[c], builder.load(sums[r][c])])
                    builder.store(total, sums[r][c])
        for r in range(TILE_ROWS):
            for c in range(width):
                builder.store(builder.load(sums[r][c]), pointer(tile, places[r][c]), align=align)
    return context.get_dummy_value()


def _spread(builder: Any, number: Any, vector: Any) -> Any:
    """Makes a vector with the number in all its lanes."""
    lanes = ir.IntType(32)
    single = builder.insert_element(ir.Constant(vector, ir.Undefined), number, lanes(0))
    mask = ir.Constant(ir.VectorType(lanes, vector.count), [0] * vector.count)
    return builder.shuffle_vector(single, ir.Constant(vector, ir.Undefined), mask)


add_tile = _tile_kernel(subtract=False)
subtract_tile = _tile_kernel(subtract=True)


def _typed_fetch(context: Any, table: Any, row: Any) -> tuple[Any, Callable[..., Any]]:
    """Prefetches a row of a table: where the rows to read lie far apart, most of the time is spent waiting."""
    del context
    return types.void(table, row), _emit_fetch


def _emit_fetch(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    table = context.make_array(signature.args[0])(context, builder, arguments[0])
    byte, number, index = ir.IntType(8).as_pointer(), ir.IntType(32), ir.IntType(64)
    length = cgutils.unpack_tuple(builder, table.strides, 2)[0]  # bytes
    row = context.cast(builder, arguments[1], signature.args[1], types.int64)
    first = builder.gep(builder.bitcast(table.data, byte), [builder.mul(row, length)])
    fetch = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.VoidType(), [byte, number, number, number]), "llvm.prefetch.p0i8"
    )
    lines = builder.sdiv(builder.add(length, index(_LINE_BYTES - 1)), index(_LINE_BYTES))
    with cgutils.for_range(builder, lines, intp=index) as loop:
        line = builder.gep(first, [builder.mul(loop.index, index(_LINE_BYTES))])
        builder.call(fetch, [line, number(0), number(3), number(1)])  # to read; to keep in all caches; data
    return context.get_dummy_value()


fetch_ahead: Any = intrinsic(_typed_fetch)
