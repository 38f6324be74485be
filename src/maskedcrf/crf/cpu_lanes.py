"""Eight doubles at a time inside numba functions, as whatever vector registers the processor has.

LLVM finds these by itself only where loops are long; with 9 tags they never are. Offsets count elements of a
contiguous array, or of what `pointer` gives for one of doubles, and are not checked.
"""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from typing import Any

from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic, models, register_model

LANES = 8

_COMPILE: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}


def forget_outdated(folder: Path) -> None:
    """Drop what was compiled before any of these files changed: numba looks at a function's own file only.

    A function that had taken in another one of an edited file would else go on with what that was.
    """
    with suppress(OSError):
        changed = max((path.stat().st_mtime_ns for path in folder.glob("cpu*.py")), default=0)
        for index in (folder / "__pycache__").glob("cpu*.nbi"):
            if index.stat().st_mtime_ns < changed:
                index.unlink()


forget_outdated(Path(__file__).parent)


def compiled(function: Any) -> Any:
    """A function in machine code that releases the GIL, compiled on first use and kept on disk for later processes."""
    try:
        return njit(cache=True, **_COMPILE)(function)
    except RuntimeError:  # no folder to keep it in: each process compiles anew
        return njit(**_COMPILE)(function)


def inlined(function: Any) -> Any:
    """A function that becomes part of its callers: vectors stay in registers, and large ones are compiled once.

    One that is compiled by itself is worked on again, with all that it calls, for everyone who calls it.
    """
    return njit(inline="always", **_COMPILE)(function)


_DOUBLE = ir.DoubleType()
_VECTOR = ir.VectorType(_DOUBLE, LANES)
_SINGLES = ir.VectorType(ir.FloatType(), LANES)
_BITS = ir.VectorType(ir.IntType(64), LANES)
_PLACES = ir.VectorType(ir.IntType(32), LANES)
_FAST = ("contract", "reassoc")  # never nnan or ninf: infinities and NaN keep their meaning


class Lanes(types.Type):
    """numba's type for eight doubles."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


LANES_TYPE = Lanes()


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, numba_type: Any) -> None:
        super().__init__(manager, numba_type, _VECTOR)


def _constant(value: float) -> Any:
    return ir.Constant(_VECTOR, [value] * LANES)


def _integers(value: int) -> Any:
    return ir.Constant(_BITS, [value] * LANES)


def _address(context: Any, builder: Any, array_type: Any, array: Any, offset: Any, item: Any = _DOUBLE) -> Any:
    """Where an item of an array is, or of what `pointer` gave for one."""
    if isinstance(array_type, types.Integer):
        data = builder.inttoptr(array, item.as_pointer())
    else:
        data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [offset])


def _broadcast(builder: Any, value: Any) -> Any:
    first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(_PLACES, [0] * LANES)
    return builder.shuffle_vector(first, ir.Constant(_VECTOR, ir.Undefined), zeros)


@intrinsic
def pointer(typing: Any, array: Any) -> Any:
    """Where an array's items are, for functions called so often that counting references to arrays would cost.

    It keeps nothing alive: take it only of a function's own arguments.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return types.int64(array), emit


@intrinsic
def integer(typing: Any, given: Any, offset: Any) -> Any:
    """The 64-bit integer at `offset` of a pointer."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _address(context, builder, signature.args[0], args[0], args[1], ir.IntType(64))
        return builder.load(place, align=8)

    return types.int64(given, types.intp), emit


def _are_singles(array_type: Any) -> bool:
    return isinstance(array_type, types.Array) and bool(array_type.dtype == types.float32)


@intrinsic
def prefetch(typing: Any, given: Any, offset: Any) -> Any:
    """Ask for the doubles at `offset` of a pointer, which will be wanted soon; they need not be there."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        ask = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0i8")
        place = builder.bitcast(_address(context, builder, signature.args[0], *args), byte)
        builder.call(ask, [place, *(ir.Constant(number, value) for value in (0, 3, 1))])  # to read, nearest cache, data
        return context.get_dummy_value()

    return types.void(given, types.intp), emit


@intrinsic
def load(typing: Any, array: Any, offset: Any) -> Any:
    """The eight doubles at `offset`, or singles as doubles."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _address(context, builder, signature.args[0], *args)
        if _are_singles(array):
            return builder.fpext(builder.load(builder.bitcast(place, _SINGLES.as_pointer()), align=4), _VECTOR)
        return builder.load(builder.bitcast(place, _VECTOR.as_pointer()), align=8)

    return LANES_TYPE(array, types.intp), emit


@intrinsic
def store(typing: Any, array: Any, offset: Any, value: Any) -> Any:
    """Write eight doubles at `offset`, rounded where the array holds singles."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _address(context, builder, signature.args[0], *args[:2])
        if _are_singles(array):
            rounded = builder.fptrunc(args[2], _SINGLES)
            builder.store(rounded, builder.bitcast(place, _SINGLES.as_pointer()), align=4)
        else:
            builder.store(args[2], builder.bitcast(place, _VECTOR.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, LANES_TYPE), emit


@intrinsic
def turn(typing: Any, square: Any, at: Any, turned: Any, to: Any) -> Any:
    """Write the eight times eight doubles at `at` of one array, lines as columns, at `to` of another."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def line(number: int, array: int) -> Any:
            offset = builder.add(args[array + 1], ir.Constant(ir.IntType(64), number * LANES))
            place = _address(context, builder, signature.args[array], args[array], offset)
            return builder.bitcast(place, _VECTOR.as_pointer())

        lines = [builder.load(line(number, 0), align=8) for number in range(LANES)]
        for distance in (1, 2, 4):  # blocks so wide change places across the diagonal
            low = [place if not place & distance else place - distance + LANES for place in range(LANES)]
            high = [place + distance if not place & distance else place + LANES for place in range(LANES)]
            for number in range(LANES):
                if not number & distance:
                    pair = lines[number], lines[number + distance]
                    lines[number] = builder.shuffle_vector(*pair, ir.Constant(_PLACES, low))
                    lines[number + distance] = builder.shuffle_vector(*pair, ir.Constant(_PLACES, high))
        for number in range(LANES):
            builder.store(lines[number], line(number, 2), align=8)
        return context.get_dummy_value()

    return types.void(square, types.intp, turned, types.intp), emit


@intrinsic
def spread(typing: Any, array: Any, offset: Any) -> Any:
    """The one double at `offset`, in all lanes."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _broadcast(builder, builder.load(_address(context, builder, signature.args[0], *args), align=8))

    return LANES_TYPE(array, types.intp), emit


@intrinsic
def fill(typing: Any, value: Any) -> Any:
    """One double in all lanes."""
    return LANES_TYPE(types.float64), lambda context, builder, signature, args: _broadcast(builder, args[0])


@intrinsic
def add(typing: Any, left: Any, right: Any) -> Any:
    """left + right."""
    return LANES_TYPE(left, right), lambda context, builder, signature, args: builder.fadd(*args)


@intrinsic
def subtract(typing: Any, left: Any, right: Any) -> Any:
    """left - right."""
    return LANES_TYPE(left, right), lambda context, builder, signature, args: builder.fsub(*args)


@intrinsic
def multiply(typing: Any, left: Any, right: Any) -> Any:
    """left * right."""
    return LANES_TYPE(left, right), lambda context, builder, signature, args: builder.fmul(*args)


@intrinsic
def multiply_add(typing: Any, left: Any, right: Any, total: Any) -> Any:
    """left * right + total, fused where the processor can."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fadd(builder.fmul(args[0], args[1], flags=_FAST), args[2], flags=_FAST)

    return LANES_TYPE(left, right, total), emit


@intrinsic
def highest(typing: Any, left: Any, right: Any) -> Any:
    """The greater of each pair; `right` where either is NaN."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return LANES_TYPE(left, right), emit


@intrinsic
def total(typing: Any, value: Any) -> Any:
    """The sum over the lanes."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function_type = ir.FunctionType(_DOUBLE, [_DOUBLE, _VECTOR])
        reduce = cgutils.get_or_insert_function(builder.module, function_type, "llvm.vector.reduce.fadd.v8f64")
        return builder.call(reduce, [ir.Constant(_DOUBLE, -0.0), args[0]], fastmath=_FAST)

    return types.float64(value), emit


@intrinsic
def least(typing: Any, left: Any, right: Any) -> Any:
    """The lesser of each pair, of positive ones: `left` where `right` is 0."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        known = builder.select(builder.fcmp_ordered("==", args[1], _constant(0.0)), args[0], args[1])
        return builder.select(builder.fcmp_ordered("<", known, args[0]), known, args[0])

    return LANES_TYPE(left, right), emit


def _biased_exponent(builder: Any, value: Any) -> Any:
    return builder.lshr(builder.bitcast(value, _BITS), _integers(52))


@intrinsic
def exponent(typing: Any, value: Any) -> Any:
    """e, where 2^e is the greatest power of two in a positive number."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # An integer put under the exponent of 2^52 is that integer more than 2^52.
        placed = builder.or_(_biased_exponent(builder, args[0]), _integers(0x433 << 52))
        return builder.fsub(builder.bitcast(placed, _VECTOR), _constant(2.0**52 + 1023.0))

    return LANES_TYPE(value), emit


@intrinsic
def inverse_power(typing: Any, value: Any) -> Any:
    """2^-e, where 2^e is the greatest power of two in a positive number."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        opposite = builder.sub(_integers(2046), _biased_exponent(builder, args[0]))
        return builder.bitcast(builder.shl(opposite, _integers(52)), _VECTOR)

    return LANES_TYPE(value), emit


# exp(y) = 2^k exp(r) with k = round(y / ln 2) and |r| <= ln(2) / 2; the series to r^13 is exact to rounding there.
_MAGIC = 1.5 * 2.0**52  # adding it leaves k in the low bits of the sum
_LN2_HIGH = 0.693147180369123816490  # 33 bits, so that k * _LN2_HIGH is exact
_LN2_LOW = 1.90821492927058770002e-10
_LIMIT = 690.0  # beyond it the caller's range check has failed anyway
_SERIES = [1.0 / math.factorial(n) for n in range(14)]


@intrinsic
def exponential(typing: Any, value: Any) -> Any:
    """exp: exactly 0 for -inf, NaN for NaN, held between e^-690 and e^690."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def fused(left: Any, right: Any, added: Any) -> Any:
            return builder.fadd(builder.fmul(left, right, flags=_FAST), added, flags=("contract",))

        given = args[0]
        limit, negative = _constant(_LIMIT), _constant(-_LIMIT)
        y = builder.select(builder.fcmp_ordered("<", given, negative), negative, given)
        y = builder.select(builder.fcmp_ordered(">", y, limit), limit, y)
        shifted = builder.fadd(builder.fmul(y, _constant(1.0 / math.log(2.0))), _constant(_MAGIC))
        k = builder.fsub(shifted, _constant(_MAGIC))
        r = fused(k, _constant(-_LN2_LOW), fused(k, _constant(-_LN2_HIGH), y))
        series = _constant(_SERIES[-1])
        for coefficient in reversed(_SERIES[:-1]):
            series = fused(series, r, _constant(coefficient))
        exponent = builder.shl(builder.bitcast(shifted, _BITS), _integers(52))
        result = builder.bitcast(builder.add(builder.bitcast(series, _BITS), exponent), _VECTOR)
        result = builder.select(builder.fcmp_unordered("uno", given, given), given, result)
        nothing = builder.fcmp_ordered("==", given, _constant(-math.inf))
        return builder.select(nothing, _constant(0.0), result)

    return LANES_TYPE(value), emit
