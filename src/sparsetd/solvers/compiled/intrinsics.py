"""What Numba has no word for: four numbers at once, arrays without an owner, a hint to the memory.

    v = load(line, j, 0)        the numbers line[j, 0:4] in one register; store(line, j, 0, v) writes them back

Four lanes are added, multiplied and so on like an array of four numbers, by one instruction of the processor instead of
four: + − * /, np.minimum, np.maximum, np.abs, np.sign, np.ceil and np.copysign. Where Numba is switched off they *are*
an array of four numbers. A product and a sum may be fused; nothing is reordered.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numba import config, types
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable
from numpy.typing import NDArray

Array = NDArray[Any]

if getattr(config, "DISABLE_JIT", False):

    def borrow(value: Any, widths: Any) -> Any:  # noqa: ARG001
        """The value itself."""
        return value

    def prefetch(array: Array, j: Any, s: int) -> None:
        """A hint to the processor: nothing to do in plain Python."""

    def lanes(number: float) -> Array:
        return np.full(4, number)

    def load(array: Array, j: Any, s: int) -> Array:
        return array[j, s : s + 4].copy()

    def store(array: Array, j: Any, s: int, value: Array) -> None:
        array[j, s : s + 4] = value

    def within(v: Array, bound: Array) -> Array:
        """1 in the lanes with |v| ≤ bound, else 0."""
        return np.where(np.abs(v) <= bound, 1.0, 0.0)

else:
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba.core import cgutils

    WORD, SHORT, DOUBLE = ir.IntType(64), ir.IntType(32), ir.DoubleType()
    FOUR, FOUR_SHORT, BYTE = ir.VectorType(DOUBLE, 4), ir.VectorType(SHORT, 4), ir.IntType(8)
    FLAGS = ("contract", "nsz")

    class Lanes(types.Type):
        """Four numbers in a register."""

        def __init__(self):
            super().__init__("Lanes")

    @register_model(Lanes)
    class LanesModel(models.PrimitiveModel):
        def __init__(self, manager, kind):
            super().__init__(manager, kind, FOUR)

    FOUR_LANES = Lanes()

    def _spread(builder, number):
        alone = builder.insert_element(FOUR(ir.Undefined), number, SHORT(0))
        return builder.shuffle_vector(alone, FOUR(ir.Undefined), FOUR_SHORT([0, 0, 0, 0]))

    def _call(builder, name, *args):
        kind = ir.FunctionType(FOUR, [FOUR] * len(args))
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v4f64"), args)

    def _choose(builder, sign, a, b):
        return builder.select(builder.fcmp_ordered(sign, a, b), a, b)

    def _sign(builder, v):
        zero, one = FOUR(None), FOUR([1.0] * 4)
        return builder.select(builder.fcmp_ordered("==", v, zero), zero, _call(builder, "copysign", one, v))

    def _unary(function, emit):
        """Let `function` take lanes."""

        @type_callable(function)
        def kind_of(_context):
            return lambda a: FOUR_LANES if a == FOUR_LANES else None

        @lower_builtin(function, FOUR_LANES)
        def lower(_context, builder, _signature, args):
            return emit(builder, *args)

    def _binary(function, emit):
        """Let `function` take two lanes, or a number and lanes."""

        @type_callable(function)
        def kind_of(_context):
            return lambda a, b: FOUR_LANES if b == FOUR_LANES and a in (FOUR_LANES, types.float64) else None

        @lower_builtin(function, FOUR_LANES, FOUR_LANES)
        def lower(_context, builder, _signature, args):
            return emit(builder, *args)

        @lower_builtin(function, types.float64, FOUR_LANES)
        def lower_number(_context, builder, _signature, args):
            return emit(builder, _spread(builder, args[0]), args[1])

    _binary(operator.add, lambda builder, a, b: builder.fadd(a, b, flags=FLAGS))
    _binary(operator.sub, lambda builder, a, b: builder.fsub(a, b, flags=FLAGS))
    _binary(operator.mul, lambda builder, a, b: builder.fmul(a, b, flags=FLAGS))
    _binary(operator.truediv, lambda builder, a, b: builder.fdiv(a, b))
    _binary(np.minimum, lambda builder, a, b: _choose(builder, "<", a, b))
    _binary(np.maximum, lambda builder, a, b: _choose(builder, ">", a, b))
    _binary(np.copysign, lambda builder, a, b: _call(builder, "copysign", a, b))
    _unary(operator.neg, lambda builder, a: builder.fneg(a))
    _unary(np.abs, lambda builder, a: _call(builder, "fabs", a))
    _unary(np.ceil, lambda builder, a: _call(builder, "ceil", a))
    _unary(np.sign, _sign)

    def _pointer(context, builder, what, kind, array, j, s):
        """A pointer to what begins at the number [j, s] of a C-contiguous array of doubles."""
        view = context.make_array(kind)(context, builder, array)
        row = builder.zext(j, WORD) if j.type.width < 64 else j
        offset = builder.mul(row, cgutils.unpack_tuple(builder, view.strides)[0])
        offset = builder.add(offset, builder.shl(s, WORD(3)))
        return builder.inttoptr(builder.add(builder.ptrtoint(view.data, WORD), offset), what.as_pointer())

    def _lent(context, builder, kind, value, width):
        """An array without its owner, or a tuple in which every array is without one."""
        if isinstance(kind, types.BaseTuple):
            for i, item in enumerate(kind.types):  # type: ignore[attr-defined]
                own = width if width is None or width.type == WORD else builder.extract_value(width, i)
                lent = _lent(context, builder, item, builder.extract_value(value, i), own)
                value = builder.insert_value(value, lent, i)
        if not isinstance(kind, types.Array):
            return value
        view = context.make_array(kind)(context, builder, value)
        view.meminfo, view.parent = view.meminfo.type(None), view.parent.type(None)
        if kind.ndim == 2 and width is not None:
            n, known = cgutils.unpack_tuple(builder, view.shape)
            width = builder.select(builder.icmp_signed("==", width, WORD(0)), known, width)
            size = WORD(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
            view.shape = cgutils.pack_array(builder, [n, width])
            view.strides = cgutils.pack_array(builder, [builder.mul(width, size), size])
        return view._getvalue()

    @intrinsic
    def borrow(_context, value, widths):
        """An array, or all arrays of a tuple, without owners: calls in a loop would count references, atomically
        (250 ns a step). `widths` is the length of the rows of an array with two dimensions, or 0: where it is a
        constant, addresses need no multiplication. One number serves a whole tuple, or there is one for each."""

        unknown = getattr(widths, "literal_value", None) == 0

        def codegen(context, builder, signature, args):
            return _lent(context, builder, signature.args[0], args[0], None if unknown else args[1])

        return value(value, types.int64 if isinstance(widths, types.Integer) else widths), codegen

    @intrinsic
    def prefetch(_context, array, j, s):  # noqa: ARG001
        """Ask for array[j, s] ahead of its use, as far as the second cache: the first could not wait for all
        rows of a step, and from the second they come in time."""

        def codegen(context, builder, signature, args):
            address = _pointer(context, builder, BYTE, signature.args[0], *args)
            kind = ir.FunctionType(ir.VoidType(), [BYTE.as_pointer(), SHORT, SHORT, SHORT])
            hint = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            builder.call(hint, [address, SHORT(0), SHORT(2), SHORT(1)])
            return context.get_dummy_value()

        return types.void(array, j, types.int64), codegen

    @intrinsic
    def lanes(_context, number):  # noqa: ARG001
        """The same number in all four lanes."""

        def codegen(_context, builder, _signature, args):
            return _spread(builder, args[0])

        return FOUR_LANES(types.float64), codegen

    @intrinsic
    def load(_context, array, j, s):  # noqa: ARG001
        """array[j, s : s + 4]."""

        def codegen(context, builder, signature, args):
            return builder.load(_pointer(context, builder, FOUR, signature.args[0], *args), align=8)

        return FOUR_LANES(array, j, types.int64), codegen

    @intrinsic
    def store(_context, array, j, s, value):  # noqa: ARG001
        """array[j, s : s + 4] = value."""

        def codegen(context, builder, signature, args):
            builder.store(args[3], _pointer(context, builder, FOUR, signature.args[0], *args[:3]), align=8)
            return context.get_dummy_value()

        return types.void(array, j, types.int64, value), codegen

    @intrinsic
    def within(_context, v, bound):
        """1 in the lanes with |v| ≤ bound, else 0."""

        def codegen(_context, builder, _signature, args):
            inside = builder.fcmp_ordered("<=", _call(builder, "fabs", args[0]), args[1])
            return builder.select(inside, FOUR([1.0] * 4), FOUR(None))

        return FOUR_LANES(v, bound), codegen
