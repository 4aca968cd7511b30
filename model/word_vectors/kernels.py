"""word2vec's inner loop: one minibatch per window, lock-free, in machine code (Ji et al. 2016).

One side is the C words around a centre. The other is T targets that the whole window shares: the centre and its
negatives, or the inner nodes of its Huffman path, or every word. Their C x T scores, errors and both updates are small
dense products (products.py), so each row is read and written once per window. CBOW is the same with a single row, the
mean of the window. Letters: C rows of the window, T targets, W padded width, V words.
"""

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dragoman.model.word_vectors.compiled import compiled, inlined
from dragoman.model.word_vectors.products import (
    combine,
    copy,
    exchange,
    learn_apart,
    learn_in_place,
    likelihoods,
    prefetch,
    prefetch_row,
    scores,
    spread,
)
from dragoman.model.word_vectors.replicas import MEET, Replica
from dragoman.model.word_vectors.workspace import HELD, HIERARCHICAL, NEGATIVE, TILE, Rules, SamplingTables, Scratch

Floats: TypeAlias = NDArray[np.float32]
Rows: TypeAlias = NDArray[np.int32]
Places: TypeAlias = NDArray[np.int64]
Home: TypeAlias = tuple[int, int, int]  # W, rows with copies, distance of the copies from the table
STEP, FIRST, SECOND = (np.uint64(k) for k in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
LOW = np.uint64(0xFFFFFFFF)
FOLD = 1024  # windows after which the loss is summed
LEAST = np.float32(-3e38)


@compiled
def train_records(
    inputs: Floats,
    outputs: Floats,
    rows: Rows,
    offsets: NDArray[np.int64],
    rules: Rules,
    tables: SamplingTables,
    scratch: Scratch,
    replicas: tuple[Replica, Replica],
    lr: np.float32,
) -> tuple[float, int]:
    """Makes one pass over the records rows[offsets[r]:offsets[r + 1]]; returns (summed loss, predictions).

    inputs (V, W), outputs (V or V - 1, W). A prediction is one context word (skip-gram) or one window (CBOW).
    """
    keep, noise, paths, nodes, branches = tables  # unpacked: numba counts references at each use of a tuple
    state, drawn, kept, spots, around, order, old, moved, targets, signs, errors, product, powers, counts, radii = (
        scratch
    )
    (near, near_before, near_shares, near_due, near_shift), (far, far_before, far_shares, far_due, far_shift) = replicas
    near_home, far_home = (inputs.shape[1], len(near), near_shift), (outputs.shape[1], len(far), far_shift)
    cbow, room = rules.cbow, len(targets) // HELD
    apart = cbow or room > TILE  # one tile reads each row once before it moves; several need the old rows
    before, places = (old, order) if apart else (inputs, around)
    loss, predictions, trained = 0.0, 0, 0
    by_noise, by_path = rules.output == NEGATIVE, rules.output == HIERARCHICAL
    for record in range(len(offsets) - 1):
        words = subsample(rows, offsets[record], offsets[record + 1], keep, state, kept, spots, near_home)
        for ahead in range(-1, words + 1):  # draws random numbers for ahead + 1, chooses targets for ahead, then
            word = ahead - 1  # trains word: memory is prefetched a step before its use
            begin, start = ahead % HELD * room, word % HELD * room
            radius, soon, end = radii[word % HELD], begin, begin
            if 0 <= ahead < words:
                if by_noise:
                    counts[ahead % HELD] = choose(kept[ahead], begin, drawn, noise, targets, signs, far_home)
                elif by_path:
                    counts[ahead % HELD] = follow(kept[ahead], begin, paths, nodes, branches, targets, signs, far_home)
                else:
                    counts[ahead % HELD] = len(keep)  # all words, written once into the scratch arrays
                if by_noise or by_path:
                    end = begin + counts[ahead % HELD]
                    soon = (begin + end) // 2
                    prefetch(outputs, targets, begin, soon)  # half now: more at once would stall
            if ahead + 1 < words:
                radii[(ahead + 1) % HELD] = 1 + below(state, rules.window) if rules.dynamic else rules.window
                if by_noise:
                    draw_noise(state, noise, drawn)
            if 0 <= ahead < words - rules.window:
                prefetch(inputs, spots, ahead + rules.window, ahead + rules.window + 1)
            if word < 0:
                continue
            size = surround(word, radius, words, spots, around)
            if size == 0:
                continue
            count, lines = counts[word % HELD], size
            if cbow:
                lines = 1
                combine(inputs, around, size, np.float32(1) / np.float32(size if rules.mean else 1), old, moved)
            elif apart:
                copy(inputs, around, size, old)
            tiles = -(-count // TILE)
            for tile in range(tiles):
                first, inside = start + tile * TILE, min(TILE, count - tile * TILE)
                scores(before, places, lines, outputs, targets, first, inside, errors, tile)
                if by_noise or by_path:
                    likelihoods(errors, lines, tile, signs, first, lr, product, powers)
            if by_noise or by_path:
                prefetch(outputs, targets, soon, end)
            else:
                loss += softmax(lines, count, kept[word], lr, errors)
            for tile in range(tiles):
                first, inside = start + tile * TILE, min(TILE, count - tile * TILE)
                if cbow:
                    learn_apart(old, 1, moved, order, outputs, targets, first, inside, errors, tile)
                elif apart:
                    learn_apart(old, size, inputs, around, outputs, targets, first, inside, errors, tile)
                else:
                    learn_in_place(old, size, inputs, around, outputs, targets, first, inside, errors, tile)
            if cbow:
                spread(moved, around, size, inputs)
            predictions += lines
            trained += 1
            if trained % FOLD == 0:
                loss += folded(product, powers)
            if trained % MEET == 0:
                exchange(inputs, near, near_before, near_shares, rows_due(near_due, trained // MEET))
                exchange(outputs, far, far_before, far_shares, rows_due(far_due, trained // MEET))
    exchange(inputs, near, near_before, near_shares, len(near))
    exchange(outputs, far, far_before, far_shares, len(far))
    return loss + folded(product, powers), predictions


@inlined
def draw(state: NDArray[np.uint64]) -> np.uint64:
    """Returns the next 64 random bits: SplitMix64 (Steele et al. 2014), a counter and a mix of its bits."""
    state[0] += STEP
    z: np.uint64 = state[0]
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return z ^ (z >> np.uint64(31))


@inlined
def below(state: NDArray[np.uint64], limit: int) -> int:
    """Returns a random integer from 0 to limit - 1, limit below 2^32."""
    return int(np.int64(((draw(state) >> np.uint64(32)) * np.uint64(limit)) >> np.uint64(32)))


@inlined
def locate(row: int, home: Home) -> int:
    """Returns the start of a row, in numbers from the start of the table; for the first rows, of the thread's copy."""
    width, hot, shift = home
    return row * width + (shift if row < hot else 0)


@inlined
def rows_due(due: NDArray[np.int64], meeting: int) -> int:
    """Returns the number of rows that meet at meeting 1, 2, 3, ...: by the highest power of two that divides it."""
    level = 0
    while level < len(due) and meeting % 2 == 0:
        level, meeting = level + 1, meeting // 2
    return due[min(level, len(due) - 1)] if len(due) else 0


@inlined
def subsample(
    rows: Rows,
    first: int,
    last: int,
    keep: NDArray[np.uint32],
    state: NDArray[np.uint64],
    kept: Rows,
    spots: Places,
    home: Home,
) -> int:
    """Copies to `kept` the rows that subsampling keeps; returns their number."""
    words = 0
    for i in range(first, last):
        row = rows[i]
        if row >= 0 and np.uint32(draw(state) >> np.uint64(32)) <= keep[row]:
            kept[words], spots[words] = row, locate(row, home)
            words += 1
    return words


@inlined
def surround(place: int, radius: int, words: int, spots: Places, around: Places) -> int:
    """Copies to `around` the rows of the window, without the centre; returns their number."""
    size = 0
    for i in range(max(0, place - radius), min(words, place + radius + 1)):
        around[size] = spots[i]
        size += i != place  # the next row overwrites the centre
    return size


@inlined
def draw_noise(state: NDArray[np.uint64], noise: NDArray[np.uint32], drawn: NDArray[np.uint64]) -> None:
    """Draws a word's negatives, K numbers that give a row and a threshold each, and prefetches the rows of `noise`."""
    for i in range(len(drawn)):
        drawn[i] = draw(state)
        prefetch_row(noise, np.int64(((drawn[i] >> np.uint64(32)) * np.uint64(len(noise))) >> np.uint64(32)))


@inlined
def choose(
    centre: int,
    first: int,
    drawn: NDArray[np.uint64],
    noise: NDArray[np.uint32],
    targets: Places,
    signs: Floats,
    home: Home,
) -> int:
    """Writes the centre and its negatives from `first` on; returns T. Drops a negative that is the centre itself."""
    targets[first], signs[first], count = locate(centre, home), np.float32(1), 1
    for i in range(len(drawn)):
        row = np.int64(((drawn[i] >> np.uint64(32)) * np.uint64(len(noise))) >> np.uint64(32))
        other, stays = np.int64(noise[row, 1]), np.uint32(drawn[i] & LOW) <= noise[row, 0]
        row = other + (row - other) * stays  # no branch, which would be mispredicted half of the time
        if row != centre:
            targets[first + count], signs[first + count] = locate(row, home), np.float32(-1)
            count += 1
    for t in range(first + count, first + -(-count // TILE) * TILE):
        signs[t] = np.float32(0)
    return count


@inlined
def follow(
    centre: int,
    first: int,
    paths: NDArray[np.int64],
    nodes: Rows,
    branches: Floats,
    targets: Places,
    signs: Floats,
    home: Home,
) -> int:
    """Writes the inner nodes of the centre's Huffman path from `first` on, with sign +1 for code 0; returns T."""
    count = 0
    for i in range(paths[centre], paths[centre + 1]):
        targets[first + count], signs[first + count] = locate(nodes[i], home), branches[i]
        count += 1
    for t in range(first + count, first + -(-count // TILE) * TILE):
        signs[t] = np.float32(0)
    return count


@inlined
def softmax(lines: int, count: int, centre: int, lr: np.float32, errors: Floats) -> float:
    """Turns scores into lr (label - p) over all words; returns the loss -log p(centre), summed over the rows."""
    loss = 0.0
    for c in range(lines):
        highest, total, right = LEAST, 0.0, centre // TILE * lines + c
        for t in range(count):
            highest = max(highest, errors[t // TILE * lines + c, t % TILE])
        loss += highest - errors[right, centre % TILE]
        for t in range(count):
            likelihood = math.exp(errors[t // TILE * lines + c, t % TILE] - highest)
            errors[t // TILE * lines + c, t % TILE] = likelihood
            total += likelihood
        loss += math.log(total)
        for t in range(count):
            errors[t // TILE * lines + c, t % TILE] *= -lr / total
        errors[right, centre % TILE] += lr
    return loss


@inlined
def folded(product: Floats, powers: Rows) -> float:
    """Returns the loss in the running product, and resets it."""
    loss = 0.0
    for t in range(len(product)):
        loss += math.log(product[t]) + powers[t] * math.log(2.0)
        product[t], powers[t] = np.float32(1), np.int32(0)
    return loss
