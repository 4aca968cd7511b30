"""The dense products of one window, written as vector instructions: C would need intrinsics for them.

Plain numba loops reach half of the machine's speed: LLVM keeps to 256-bit registers, folds every dot product by itself
and reads rows again for each pair. Here two rows at a time meet a tile of up to TILE targets, whose sums stay in
registers. `emitted` functions are programs that write such code once for every size of a tile; kernels.py calls them
like any function. Letters: C rows of the window, T targets, W padded width, V words.
"""

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from dragoman.model.word_vectors.compiled import Emit, emitted
from dragoman.model.word_vectors.simd import FLOAT, INT, WORD, ZEROS, Array, Code, Value
from dragoman.model.word_vectors.workspace import TILE

LIMIT = 80.0
LN2_HIGH = 0.693359375  # ln 2 in 10 bits: its product with a whole number below 2^14 is exact


@emitted
def scores(
    typing: Any, rows: Any, own: Any, lines: Any, table: Any, targets: Any, start: Any, count: Any, out: Any, at: Any
) -> tuple[Any, Emit]:
    """Dot products of the `lines` rows rows[own] with a tile: the `count` <= TILE rows table[targets[start:]].

    rows (.., W), own (C,), table (V, W); the results go to out[lines at + c, t] (.., TILE), 0 from t = count on.
    """

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Value:
        code = Code(context, builder, sig, args)
        ours, own_numbers, theirs, numbers, result = (code.array(i) for i in (0, 1, 3, 4, 7))
        above = builder.mul(args[2], args[8])

        def tile(n: int) -> None:
            chosen = [theirs.place(numbers.number(code.plus(args[5], t))) for t in range(n)]

            def some(first: Value, together: int) -> None:
                mine = [ours.place(own_numbers.number(code.plus(first, c))) for c in range(together)]
                sums = [[code.variable() for _ in range(n)] for _ in mine]
                with code.loop(code.vectors(ours)) as k:
                    left = [code.load(row, k) for row in mine]
                    for t, row in enumerate(chosen):
                        right = code.load(row, k)
                        for vector, total in zip(left, sums, strict=True):
                            builder.store(code.fma(vector, right, builder.load(total[t])), total[t])
                totals = [[*map(builder.load, row), *[ZEROS] * (TILE - n)] for row in sums]
                code.store_totals([total for row in totals for total in row], result.row(builder.add(above, first)))

            code.pairs(args[2], some)

        code.choice(args[6], TILE, tile)
        return context.get_dummy_value()

    return types.void(rows, own, types.intp, table, targets, types.intp, types.intp, out, types.intp), emit


def _learn(apart: bool) -> Callable[..., None]:
    @emitted
    def learn(
        typing: Any,
        old: Any,
        lines: Any,
        inputs: Any,
        around: Any,
        table: Any,
        targets: Any,
        start: Any,
        count: Any,
        errors: Any,
        at: Any,
    ) -> tuple[Any, Emit]:
        def emit(context: Any, builder: Any, sig: Any, args: Any) -> Value:
            code = Code(context, builder, sig, args)
            before, left, left_numbers = code.array(0), code.array(2), code.array(3)
            right, right_numbers, gains = code.array(4), code.array(5), code.array(8)
            above = builder.mul(args[1], args[9])

            def tile(n: int) -> None:
                chosen = [right.place(right_numbers.number(code.plus(args[6], t))) for t in range(n)]
                sums = [code.variable() for _ in range(n)]
                with code.loop(code.vectors(left)) as k:
                    theirs = [code.load(row, k) for row in chosen]
                    for total in sums:
                        builder.store(ZEROS, total)
                    with code.loop(args[1]) as c:
                        row, gain = left.place(left_numbers.number(c)), gains.row(builder.add(above, c))
                        moved = code.load(row, k)
                        mine = code.load(before.row(c), k) if apart else moved
                        for t, total in enumerate(sums):
                            error = code.spread(builder.load(builder.gep(gain, [WORD(t)])))
                            moved = code.fma(error, theirs[t], moved)
                            builder.store(code.fma(error, mine, builder.load(total)), total)
                        code.store(moved, row, k)
                    for row, total in zip(chosen, sums, strict=True):
                        code.store(builder.fadd(code.load(row, k), builder.load(total)), row, k)

            code.choice(args[7], TILE, tile)
            return context.get_dummy_value()

        arguments = (old, types.intp, inputs, around, table, targets, types.intp, types.intp, errors, types.intp)
        return types.void(*arguments), emit

    return learn


# learn_apart(old, lines, inputs, around, table, targets, start, count, errors, at): moves both sides by the errors e
# of a tile, errors[lines at + c, t]. inputs[around[c]] += sum over t of e * table[targets[start + t]]; then in reverse,
# table[targets[start + t]] += sum over c of e * old[c]. A row that occurs twice moves twice.
# learn_in_place: the same with inputs[around] for `old`; reads each row before it moves, unless it occurs twice.
learn_apart, learn_in_place = _learn(apart=True), _learn(apart=False)


@emitted
def combine(typing: Any, inputs: Any, around: Any, size: Any, share: Any, old: Any, moved: Any) -> tuple[Any, Emit]:
    """old[0] = share * the sum of inputs[around[:size]]; moved[0] = 0."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Value:
        code = Code(context, builder, sig, args)
        table, numbers, result, zeros = code.array(0), code.array(1), code.array(4), code.array(5)
        total, factor = code.variable(), code.spread(args[3])
        with code.loop(code.vectors(table)) as k:
            builder.store(ZEROS, total)
            with code.loop(args[2]) as c:
                row = code.load(table.place(numbers.number(c)), k)
                builder.store(builder.fadd(builder.load(total), row), total)
            code.store(builder.fmul(builder.load(total), factor), result.start, k)
            code.store(ZEROS, zeros.start, k)
        return context.get_dummy_value()

    return types.void(inputs, around, types.intp, types.float32, old, moved), emit


@emitted
def copy(typing: Any, inputs: Any, around: Any, size: Any, old: Any) -> tuple[Any, Emit]:
    """old[c] = inputs[around[c]]."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Value:
        code = Code(context, builder, sig, args)
        table, numbers, result = code.array(0), code.array(1), code.array(3)
        with code.loop(args[2]) as c:
            source, goal = table.place(numbers.number(c)), result.row(c)
            with code.loop(code.vectors(table)) as k:
                code.store(code.load(source, k), goal, k)
        return context.get_dummy_value()

    return types.void(inputs, around, types.intp, old), emit


@emitted
def spread(typing: Any, moved: Any, around: Any, size: Any, inputs: Any) -> tuple[Any, Emit]:
    """inputs[around[:size]] += moved[0], twice for a row that occurs twice."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Value:
        code = Code(context, builder, sig, args)
        source, numbers, table = code.array(0), code.array(1), code.array(3)
        with code.loop(code.vectors(table)) as k:
            move = code.load(source.start, k)
            with code.loop(args[2]) as c:
                row = table.place(numbers.number(c))
                code.store(builder.fadd(code.load(row, k), move), row, k)
        return context.get_dummy_value()

    return types.void(moved, around, types.intp, inputs), emit


@emitted
def exchange(typing: Any, table: Any, own: Any, before: Any, shares: Any, rows: Any) -> tuple[Any, Emit]:
    """table[r] += shares[r] (own[r] - before[r]) for the first `rows` rows; then sets own and before to the result."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Value:
        code = Code(context, builder, sig, args)
        arrays, weights = [code.array(i) for i in range(3)], code.array(3)
        with code.loop(args[4]) as r:
            share = code.spread(builder.load(weights.place(r)))
            shared, mine, old = (array.row(r) for array in arrays)
            _prefetch(code, arrays[0], arrays[0].row(code.plus(r, 2)), 1)
            with code.loop(code.vectors(arrays[0])) as k:
                moved = builder.fsub(code.load(mine, k), code.load(old, k))
                now = code.fma(share, moved, code.load(shared, k))
                for row in (shared, mine, old):
                    code.store(now, row, k)
        return context.get_dummy_value()

    return types.void(table, own, before, shares, types.intp), emit


@emitted
def likelihoods(
    typing: Any, errors: Any, lines: Any, at: Any, signs: Any, start: Any, lr: Any, product: Any, powers: Any
) -> tuple[Any, Emit]:
    """Turns scores s in errors[lines at + c, t] into lr sign sigmoid(-sign s): a step along log sigmoid(sign s).

    sign = signs[start + t], 0 if there is no target. The loss, a sum of log(1 + exp(-sign s)), is kept as the `product`
    of these numbers, with its `powers` of two counted apart, so that thousands of terms need one logarithm. Scores are
    clamped to LIMIT, beyond which float32 cannot tell a sigmoid from 0 or 1, so nothing overflows.
    """

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Value:
        code = Code(context, builder, sig, args)
        table, labels, inverses, exponents = code.array(0), code.array(3), code.array(6), code.array(7)

        def some(first: Value, together: int) -> None:
            size, zero = together * TILE, WORD(0)
            floats, whole_numbers = ir.VectorType(FLOAT, size), ir.VectorType(INT, size)
            row = table.row(builder.add(builder.mul(args[1], args[2]), first))
            sign = code.load(labels.place(args[4]), zero, ir.VectorType(FLOAT, TILE))
            sign = code.shuffle(sign, sign, list(range(TILE)) * together)
            score = builder.fmul(sign, code.load(row, zero, floats))
            for order, limit in (("<", LIMIT), (">", -LIMIT)):
                bound = ir.Constant(floats, [limit] * size)
                score = builder.select(builder.fcmp_ordered(order, score, bound), score, bound)
            odds = exponential(code, builder.fneg(score))  # of the wrong answer: (1 - p) / p
            ones = ir.Constant(floats, [1.0] * size)
            gain = builder.fmul(sign, code.spread(args[5], size))
            code.store(builder.fdiv(builder.fmul(gain, odds), builder.fadd(odds, ones)), row, zero)
            factor = code.fma(code.call("llvm.fabs", sign), odds, ones)
            grown = builder.fmul(code.load(inverses.start, zero, floats), factor)
            bits = builder.bitcast(grown, whole_numbers)
            power = builder.sub(builder.lshr(bits, _whole(23, size)), _whole(127, size))
            counted = code.load(exponents.start, zero, whole_numbers)
            code.store(builder.add(counted, power), exponents.start, zero)
            kept = builder.or_(builder.and_(bits, _whole(0x7FFFFF, size)), _whole(127 << 23, size))
            code.store(builder.bitcast(kept, floats), inverses.start, zero)

        code.pairs(args[1], some)
        return context.get_dummy_value()

    return (types.void(errors, types.intp, types.intp, signs, types.intp, types.float32, product, powers), emit)


def exponential(code: Code, x: Value) -> Value:
    """Returns e^x for |x| < 87: a power of two times a polynomial of the rest, which is within ln(2) / 2 of 0."""
    size = x.type.count

    def every(value: float) -> Value:
        return ir.Constant(x.type, [value] * size)

    whole = code.call("llvm.nearbyint", code.builder.fmul(x, every(math.log2(math.e))))
    rest = code.fma(whole, every(-LN2_HIGH), x)
    rest = code.fma(whole, every(LN2_HIGH - math.log(2)), rest)
    squared = code.builder.fmul(rest, rest)
    value = every(0.0)
    for power in (6, 4, 2, 0):  # two terms at a time halve the latency
        pair = code.fma(rest, every(1 / math.factorial(power + 1)), every(1 / math.factorial(power)))
        value = code.fma(value, squared, pair)
    exponent = code.builder.add(code.builder.fptosi(whole, ir.VectorType(INT, size)), _whole(127, size))
    return code.builder.fmul(value, code.builder.bitcast(code.builder.shl(exponent, _whole(23, size)), x.type))


def _whole(value: int, size: int) -> Value:
    return ir.Constant(ir.VectorType(INT, size), [value] * size)


@emitted
def prefetch(typing: Any, table: Any, numbers: Any, start: Any, end: Any) -> tuple[Any, Emit]:
    """Prefetches the rows table[numbers[start:end]]."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Value:
        code = Code(context, builder, sig, args)
        array, chosen = code.array(0), code.array(1)
        with code.loop(builder.sub(args[3], args[2])) as i:
            _prefetch(code, array, array.place(chosen.number(builder.add(args[2], i))), 1)
        return context.get_dummy_value()

    return types.void(table, numbers, types.intp, types.intp), emit


@emitted
def prefetch_row(typing: Any, table: Any, row: Any) -> tuple[Any, Emit]:
    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Value:
        code = Code(context, builder, sig, args)
        _prefetch(code, code.array(0), code.array(0).row(args[1]), 0)
        return context.get_dummy_value()

    return types.void(table, types.intp), emit


def _prefetch(code: Code, array: Array, start: Value, write: int) -> None:
    """Prefetches the row that begins at `start` into the nearest cache, for reading or (`write` 1) writing."""
    builder, line, byte = code.builder, WORD(16), ir.PointerType(ir.IntType(8))
    call = ir.FunctionType(ir.VoidType(), [byte, INT, INT, INT])
    function = builder.module.declare_intrinsic("llvm.prefetch", [byte], call)
    with code.loop(builder.udiv(code.plus(array.columns, 15), line)) as k:
        address = builder.bitcast(builder.gep(start, [builder.mul(k, line)]), byte)
        builder.call(function, [address, INT(write), INT(3), INT(1)])
