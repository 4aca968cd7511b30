"""The dense products of one window as vector instructions: what a compiler would need C intrinsics for.

Plain loops in numba reach half of the machine: LLVM keeps to 256-bit registers, folds every dot product on its own and
reads rows again for each pair. Here a register holds 8 or 16 float32 of a row and up to TILE rows of targets stay in
registers while the window's rows stream past. The instructions are written once, below, as a program that emits them
for every tile from 1 to TILE; LLVM turns them into what the machine has (AVX-512, AVX2, NEON), so nobody needs a
compiler. Letters: C rows of the window, T targets, W padded width.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.np.arrayobj import make_array

from model.vectors.compiled import Emit, emitted
from model.vectors.workspace import TILE

LANES = 16 if dict(llvm.get_host_cpu_features()).get("avx512f") else 8  # float32 of a register
FLOAT, INT, WORD = ir.FloatType(), ir.IntType(32), ir.IntType(64)
VECTOR = ir.VectorType(FLOAT, LANES)
LIMIT = 80.0
LN2_HIGH = 0.693359375  # ln 2 in 10 bits: its product with a whole number below 2^14 is exact
ZEROS = ir.Constant(VECTOR, [0.0] * LANES)
Value = Any  # an LLVM value


def _dots(together: int) -> Callable[..., None]:
    """The instruction for dot products of `together` neighbouring rows with up to TILE targets."""

    @emitted
    def dots(
        typing: Any, rows: Any, first: Any, table: Any, targets: Any, start: Any, count: Any, out: Any, at: Any
    ) -> tuple[Any, Emit]:
        def emit(context: Any, builder: Any, sig: Any, args: Any) -> Value:
            ours, theirs, chosen, result = (_Array(context, builder, sig, args, i) for i in (0, 2, 3, 6))
            mine = [ours.row(builder.add(args[1], WORD(c))) for c in range(together)]

            def tile(n: int) -> None:
                other = [theirs.row(chosen.element(builder.add(args[4], WORD(t)))) for t in range(n)]
                sums = [[_variable(builder) for _ in range(n)] for _ in mine]
                with _loop(builder, ours.columns(LANES)) as k:
                    left = [_load(builder, row, k) for row in mine]
                    for t, row in enumerate(other):
                        right = _load(builder, row, k)
                        for vector, total in zip(left, sums, strict=True):
                            builder.store(_fma(builder, vector, right, builder.load(total[t])), total[t])
                unused = [ZEROS] * (TILE - n)
                _store_totals(
                    builder, [v for row in sums for v in [*map(builder.load, row), *unused]], result.row(args[7])
                )

            _for_each_tile(builder, args[5], tile)
            return context.get_dummy_value()

        return types.void(rows, types.intp, table, targets, types.intp, types.intp, out, types.intp), emit

    return dots


# dots(rows, first, table, targets, start, count, out, at): out[at + c, t] = rows[first + c] . table[targets[start + t]]
# for c of one or two rows and t < count <= TILE; rows (.., W), table (V, W), out (.., TILE), 0 from t = count on.
dots_of_one, dots_of_two = _dots(1), _dots(2)


def _errors(together: int) -> Callable[..., None]:
    """The instruction that turns the scores of `together` neighbouring rows of a tile into errors."""
    many = together * TILE
    numbers, whole_numbers = ir.VectorType(FLOAT, many), ir.VectorType(INT, many)

    def constant(value: float) -> Value:
        return ir.Constant(numbers, [value] * many)

    def integer(value: int) -> Value:
        return ir.Constant(whole_numbers, [value] * many)

    def exponential(builder: Any, x: Value) -> Value:
        """e^x for |x| < 87: a power of two times a polynomial of the rest, which lies within ln(2) / 2 of 0."""
        whole = _call(builder, "llvm.nearbyint", builder.fmul(x, constant(math.log2(math.e))))
        rest = _fma(builder, whole, constant(-LN2_HIGH), x)
        rest = _fma(builder, whole, constant(LN2_HIGH - math.log(2)), rest)
        value = constant(1 / math.factorial(7))
        for power in range(6, -1, -1):
            value = _fma(builder, value, rest, constant(1 / math.factorial(power)))
        exponent = builder.add(builder.fptosi(whole, whole_numbers), integer(127))
        return builder.fmul(value, builder.bitcast(builder.shl(exponent, integer(23)), numbers))

    @emitted
    def errors(
        typing: Any, table: Any, at: Any, signs: Any, start: Any, lr: Any, product: Any, powers: Any
    ) -> tuple[Any, Emit]:
        def emit(context: Any, builder: Any, sig: Any, args: Any) -> Value:
            scores, labels, inverses, exponents = (_Array(context, builder, sig, args, i) for i in (0, 2, 5, 6))
            place = builder.bitcast(scores.row(args[1]), ir.PointerType(numbers))
            sign = builder.load(
                builder.bitcast(labels.place(args[3]), ir.PointerType(ir.VectorType(FLOAT, TILE))), align=4
            )
            sign = _shuffled(builder, sign, sign, list(range(TILE)) * together)
            score = builder.fmul(sign, builder.load(place, align=4))
            for order, limit in (("<", LIMIT), (">", -LIMIT)):
                within = builder.fcmp_ordered(order, score, constant(limit))
                score = builder.select(within, score, constant(limit))
            odds = exponential(builder, builder.fneg(score))  # of the wrong answer: (1 - p) / p
            gain = builder.fmul(sign, _spread(builder, args[4], many))
            builder.store(builder.fdiv(builder.fmul(gain, odds), builder.fadd(odds, constant(1))), place, align=4)
            size = _call(builder, "llvm.fabs", sign)
            total, taken = (
                builder.bitcast(one.data, ir.PointerType(kind))
                for one, kind in ((inverses, numbers), (exponents, whole_numbers))
            )
            grown = builder.fmul(builder.load(total, align=4), _fma(builder, size, odds, constant(1)))
            bits = builder.bitcast(grown, whole_numbers)
            power = builder.sub(builder.lshr(bits, integer(23)), integer(127))
            builder.store(builder.add(builder.load(taken, align=4), power), taken, align=4)
            kept = builder.or_(builder.and_(bits, integer(0x7FFFFF)), integer(127 << 23))
            builder.store(builder.bitcast(kept, numbers), total, align=4)
            return context.get_dummy_value()

        return types.void(table, types.intp, signs, types.intp, types.float32, product, powers), emit

    return errors


# errors(table, at, signs, start, lr, product, powers): scores s in table[at + c, t] become lr sign sigmoid(-sign s), a
# step along the gradient of log sigmoid(sign s); sign = signs[start + t], 0 where there is no target. The loss, a
# sum of log(1 + exp(-sign s)), is kept as the product of what the logarithms are of, with its powers of two counted
# apart, so that one logarithm is left for thousands. Scores are held within LIMIT: nothing overflows, and float32
# cannot tell sigmoid from 0 or 1 there.
errors_of_one, errors_of_two = _errors(1), _errors(2)


@emitted
def update(
    typing: Any,
    old: Any,
    count: Any,
    inputs: Any,
    chosen: Any,
    table: Any,
    targets: Any,
    start: Any,
    tile: Any,
    errors: Any,
    at: Any,
) -> tuple[Any, Emit]:
    """Both sides of one tile move by the errors, each by what the other was.

    inputs[chosen[c]] += sum over t of errors[at + c, t] * table[targets[start + t]]; then
    table[targets[start + t]] += sum over c of errors[at + c, t] * old[c]. A row that stands twice gets both sums.
    """
    signature = types.void(old, types.intp, inputs, chosen, table, targets, types.intp, types.intp, errors, types.intp)

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Value:
        before, left, left_rows, right, right_rows, gains = (
            _Array(context, builder, sig, args, i) for i in (0, 2, 3, 4, 5, 8)
        )

        def emit_tile(n: int) -> None:
            rows = [right.row(right_rows.element(builder.add(args[6], WORD(t)))) for t in range(n)]
            sums = [_variable(builder) for _ in range(n)]
            with _loop(builder, left.columns(LANES)) as k:
                theirs = [_load(builder, row, k) for row in rows]
                for one in sums:
                    builder.store(ZEROS, one)
                with _loop(builder, args[1]) as c:
                    row, gain = left.row(left_rows.element(c)), gains.row(builder.add(args[9], c))
                    mine, moved = _load(builder, before.row(c), k), _load(builder, row, k)
                    for t in range(n):
                        error = _spread(builder, builder.load(builder.gep(gain, [WORD(t)])))
                        moved = _fma(builder, error, theirs[t], moved)
                        builder.store(_fma(builder, error, mine, builder.load(sums[t])), sums[t])
                    _store(builder, moved, row, k)
                for row, one in zip(rows, sums, strict=True):
                    _store(builder, builder.fadd(_load(builder, row, k), builder.load(one)), row, k)

        _for_each_tile(builder, args[7], emit_tile)
        return context.get_dummy_value()

    return signature, emit


@emitted
def prefetch(typing: Any, table: Any, row: Any) -> tuple[Any, Emit]:
    """Ask for a row's cache lines, so that they are there when they are needed."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Value:
        array = _Array(context, builder, sig, args, 0)
        start, byte = array.row(args[1]), ir.PointerType(ir.IntType(8))
        call = ir.FunctionType(ir.VoidType(), [byte, INT, INT, INT])
        function = cgutils.get_or_insert_function(builder.module, call, "llvm.prefetch.p0")
        with _loop(builder, array.columns(16)) as k:
            line = builder.bitcast(builder.gep(start, [builder.mul(k, WORD(16))]), byte)
            builder.call(function, [line, INT(0), INT(3), INT(1)])  # to read, into the nearest cache, data
        return context.get_dummy_value()

    return types.void(table, types.intp), emit


class _Array:
    """Addresses inside of a C-contiguous array argument."""

    def __init__(self, context: Any, builder: Any, sig: Any, args: Any, position: int) -> None:
        self.builder = builder
        array = make_array(sig.args[position])(context, builder, args[position])
        self.data, self.shape = array.data, cgutils.unpack_tuple(builder, array.shape)

    def columns(self, unit: int) -> Value:
        """How many units of so many elements a row has."""
        return self.builder.udiv(self.shape[1], WORD(unit))

    def row(self, index: Value) -> Value:
        """The address of a row."""
        return self.builder.gep(self.data, [self.builder.mul(index, self.shape[1])])

    def element(self, index: Value) -> Value:
        """The whole number at a place of a 1-D array, as 64 bits."""
        return self.builder.zext(self.builder.load(self.place(index)), WORD)

    def place(self, index: Value) -> Value:
        """The address of a place of a 1-D array."""
        return self.builder.gep(self.data, [index])


def _for_each_tile(builder: Any, count: Value, emit: Callable[[int], None]) -> None:
    """Code for every number of targets; the right one is jumped to."""
    done = builder.append_basic_block("done")
    switch = builder.switch(count, done)
    for n in range(1, TILE + 1):
        block = builder.append_basic_block(f"tile{n}")
        switch.add_case(WORD(n), block)
        builder.position_at_end(block)
        emit(n)
        builder.branch(done)
    builder.position_at_end(done)


@contextlib.contextmanager
def _loop(builder: Any, count: Value) -> Iterator[Value]:
    """A loop over 0 .. count - 1, whose number it gives."""
    with cgutils.for_range(builder, count, intp=WORD) as loop:
        yield loop.index


def _variable(builder: Any) -> Value:
    """A vector variable, zero at first; LLVM keeps it in a register."""
    variable = cgutils.alloca_once(builder, VECTOR)
    builder.store(ZEROS, variable)
    return variable


def _place(builder: Any, row: Value, k: Value) -> Value:
    address = builder.gep(row, [builder.mul(k, WORD(LANES))])
    return builder.bitcast(address, ir.PointerType(VECTOR))


def _load(builder: Any, row: Value, k: Value) -> Value:
    """Vector k of a row."""
    return builder.load(_place(builder, row, k), align=4)


def _store(builder: Any, vector: Value, row: Value, k: Value) -> None:
    builder.store(vector, _place(builder, row, k), align=4)


def _call(builder: Any, name: str, *vectors: Value) -> Value:
    """An instruction that LLVM knows as a function of vectors, by its name without their type."""
    kind = vectors[0].type
    call = ir.FunctionType(kind, [kind] * len(vectors))
    function = cgutils.get_or_insert_function(builder.module, call, f"{name}.v{kind.count}f32")
    return builder.call(function, vectors)


def _fma(builder: Any, a: Value, b: Value, c: Value) -> Value:
    """a * b + c, fused where the machine can."""
    return _call(builder, "llvm.fmuladd", a, b, c)


def _shuffled(builder: Any, a: Value, b: Value, lanes: Sequence[int]) -> Value:
    """Chosen lanes of two vectors, those of `b` counted on from LANES."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(INT, len(lanes)), list(lanes)))


def _spread(builder: Any, scalar: Value, many: int = LANES) -> Value:
    """A vector of one number."""
    one = builder.insert_element(ir.Constant(ir.VectorType(FLOAT, many), ir.Undefined), scalar, INT(0))
    return _shuffled(builder, one, one, [0] * many)


def _store_totals(builder: Any, vectors: Sequence[Value], out: Value) -> None:
    """The sum of each vector's lanes to out[0], out[1], ...

    LANES vectors are added in pairs, each sum half as many lanes of twice as many vectors, until one vector holds in
    lane i the total of vector i: a shuffle for each vector instead of one for each halving of each.
    """
    for first in range(0, len(vectors), LANES):
        group, step = list(vectors[first : first + LANES]), 1
        kept = len(group)
        while step < LANES:
            own = [i + (LANES if i & step and len(group) > 1 else 0) for i in range(LANES)]
            other = [i ^ step for i in own]
            pairs = zip(group[::2], group[1::2] or group, strict=True)
            group = [builder.fadd(_shuffled(builder, a, b, own), _shuffled(builder, a, b, other)) for a, b in pairs]
            step *= 2
        whole = _shuffled(builder, group[0], group[0], range(kept))
        place = builder.bitcast(builder.gep(out, [WORD(first)]), ir.PointerType(whole.type))
        builder.store(whole, place, align=4)
