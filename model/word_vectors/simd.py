"""Vector instructions by name, the vocabulary of products.py.

LLVM turns them into the machine's own (AVX-512, AVX2, NEON), so no compiler is needed. W padded width.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils, config
from numba.np.arrayobj import make_array

FEATURES = llvm.get_host_cpu_features().flatten() if config.CPU_FEATURES is None else config.CPU_FEATURES
LANES = 16 if "+avx512f" in FEATURES else 8  # float32 numbers in a register
FLOAT, INT, WORD = ir.FloatType(), ir.IntType(32), ir.IntType(64)
VECTOR = ir.VectorType(FLOAT, LANES)
ZEROS = ir.Constant(VECTOR, [0.0] * LANES)
Value: TypeAlias = Any  # an LLVM value


class Array:
    """Addresses within a C-contiguous array."""

    def __init__(self, context: Any, builder: Any, kind: Any, value: Value) -> None:
        if kind.layout != "C":
            raise ValueError(f"{kind}: rows are addressed as those of a C-contiguous array")
        array = make_array(kind)(context, builder, value)
        self.builder, self.start = builder, array.data
        self.columns = cgutils.unpack_tuple(builder, array.shape)[-1]

    def row(self, index: Value) -> Value:
        """Returns the address of a row of a 2-D array."""
        return self.place(self.builder.mul(index, self.columns))

    def place(self, index: Value) -> Value:
        """Returns the address of an element, counted from the first."""
        return self.builder.gep(self.start, [index])

    def number(self, index: Value) -> Value:
        """Returns the 64-bit integer at a place."""
        return self.builder.load(self.place(index))


class Code:
    """Appends instructions to a function that numba compiles."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Sequence[Value]) -> None:
        self.builder, self._context = builder, context
        self._arguments = list(zip(signature.args, arguments, strict=True))

    def array(self, position: int) -> Array:
        """Returns the function's argument at `position` as an array."""
        return Array(self._context, self.builder, *self._arguments[position])

    def vectors(self, array: Array) -> Value:
        """Returns the number of vectors in a row of the array."""
        return self.builder.udiv(array.columns, WORD(LANES))

    def plus(self, a: Value, b: int) -> Value:
        return self.builder.add(a, WORD(b))

    @contextlib.contextmanager
    def loop(self, count: Value) -> Iterator[Value]:
        """Loops over 0 .. count - 1 and yields the index."""
        with cgutils.for_range(self.builder, count, intp=WORD) as loop:
            yield loop.index

    def pairs(self, count: Value, emit: Callable[[Value, int], None]) -> None:
        """Emits `emit(first, 2)` for 0, 2, 4, ... and, if the count is odd, `emit(last, 1)`."""
        with self.loop(self.builder.lshr(count, WORD(1))) as half:
            emit(self.builder.shl(half, WORD(1)), 2)
        with self.builder.if_then(self.builder.trunc(count, ir.IntType(1))):
            emit(self.plus(count, -1), 1)

    def choice(self, number: Value, most: int, emit: Callable[[int], None]) -> None:
        """Emits code for every number from 1 to `most`, and a jump to the right one."""
        done = self.builder.append_basic_block("done")
        switch = self.builder.switch(number, done)
        for n in range(1, most + 1):
            block = self.builder.append_basic_block(f"for{n}")
            switch.add_case(WORD(n), block)
            self.builder.position_at_end(block)
            emit(n)
            self.builder.branch(done)
        self.builder.position_at_end(done)

    def variable(self) -> Value:
        """Returns a vector variable, initially zero; LLVM keeps it in a register."""
        variable = cgutils.alloca_once(self.builder, VECTOR)
        self.builder.store(ZEROS, variable)
        return variable

    def load(self, row: Value, k: Value, kind: Any = VECTOR) -> Value:
        """Loads vector k of a row."""
        return self.builder.load(self._vector(row, k, kind), align=4)

    def store(self, vector: Value, row: Value, k: Value) -> None:
        self.builder.store(vector, self._vector(row, k, vector.type), align=4)

    def _vector(self, row: Value, k: Value, kind: Any) -> Value:
        place = self.builder.gep(row, [self.builder.mul(k, WORD(kind.count))])
        return self.builder.bitcast(place, ir.PointerType(kind))

    def call(self, name: str, *vectors: Value) -> Value:
        """Calls LLVM's function of float vectors with this name (without the type)."""
        kind = vectors[0].type
        call = ir.FunctionType(kind, [kind] * len(vectors))
        function = cgutils.get_or_insert_function(self.builder.module, call, f"{name}.v{kind.count}f32")
        return self.builder.call(function, vectors)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a * b + c, fused if the machine can."""
        return self.call("llvm.fmuladd", a, b, c)

    def shuffle(self, a: Value, b: Value, lanes: Sequence[int]) -> Value:
        """Selects lanes of two vectors; those of `b` are numbered after those of `a`."""
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(INT, len(lanes)), list(lanes)))

    def spread(self, scalar: Value, count: int = LANES) -> Value:
        """Returns a vector that repeats one number."""
        single = self.builder.insert_element(ir.Constant(ir.VectorType(FLOAT, count), ir.Undefined), scalar, INT(0))
        return self.shuffle(single, single, [0] * count)

    def store_totals(self, vectors: Sequence[Value], out: Value) -> None:
        """Stores the sum of each vector's lanes in out[0], out[1], ...; the number of vectors is a power of two.

        Adds pairs of vectors so that each sum keeps half of the lanes of both, until one vector holds the total of
        vector i in lane i: one shuffle per vector, instead of one for each halving of each vector.
        """
        for first in range(0, len(vectors), LANES):
            group, step = list(vectors[first : first + LANES]), 1
            kept = len(group)
            while step < LANES:
                own = [i + (LANES if i & step and len(group) > 1 else 0) for i in range(LANES)]
                other = [i ^ step for i in own]
                pairs = zip(group[::2], group[1::2] or group, strict=True)
                group = [self.builder.fadd(self.shuffle(a, b, own), self.shuffle(a, b, other)) for a, b in pairs]
                step *= 2
            self.store(self.shuffle(group[0], group[0], range(kept)), self.builder.gep(out, [WORD(first)]), WORD(0))
