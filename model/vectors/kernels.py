"""word2vec's inner loop: one minibatch a window, lock-free, in machine code (Ji et al. 2016).

The C words around a centre are one side, T targets that the whole window shares the other: the centre and its
negatives, or the inner nodes of its Huffman path, or every word. Their C x T scores, errors and both updates are small
dense products (products.py), so each row is read and written once a window. CBOW is the same with the one mean of the
window's rows as its only row. Letters: C rows of the window, T targets, W padded width, V words.
"""

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from model.vectors.compiled import compiled, inlined
from model.vectors.products import learn, likelihoods, prefetch, scores
from model.vectors.workspace import HIERARCHICAL, SOFTMAX, TILE, Chances, Rules, Scratch

Floats: TypeAlias = NDArray[np.float32]
Rows: TypeAlias = NDArray[np.int32]
STEP, FIRST, SECOND = (np.uint64(k) for k in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
ONLY = np.zeros(1, dtype=np.int32)  # the row numbers of a table of one row
LOW = np.uint64(0xFFFFFFFF)
FOLD = 4096  # windows after which the loss is summed up
LEAST = np.float32(-3e38)


@compiled
def train_records(
    inputs: Floats,
    outputs: Floats,
    rows: Rows,
    offsets: NDArray[np.int64],
    rules: Rules,
    chances: Chances,
    scratch: Scratch,
    lr: np.float32,
) -> tuple[float, int]:
    """One pass over the records rows[offsets[r]:offsets[r + 1]]; (summed loss, predictions).

    inputs (V, W), outputs (V or V - 1, W). A prediction is one context word (skip-gram) or one window (CBOW).
    """
    keep, noise, paths, nodes, branches = chances  # unpacked: what stays packed is counted at each use
    state, kept, around, old, moved, targets, signs, errors, product, powers = scratch
    cbow, half = rules.cbow, len(targets) // 2
    loss, predictions, windows = 0.0, 0, 0
    radius, radius_ahead, count, count_ahead = 0, 0, 0, 0
    for record in range(len(offsets) - 1):
        words = subsample(rows, offsets[record], offsets[record + 1], keep, state, kept)
        for ahead in range(words + 1):  # the targets of the word ahead are chosen, then the word before it is trained
            radius, count, start = radius_ahead, count_ahead, (ahead + 1) % 2 * half
            if ahead < words:
                radius_ahead = 1 + below(state, rules.window) if rules.dynamic else rules.window
                first, centre = ahead % 2 * half, kept[ahead]
                if rules.output == SOFTMAX:
                    count_ahead = len(keep)  # all words, written once into the scratch
                elif rules.output == HIERARCHICAL:
                    count_ahead = follow(centre, first, paths, nodes, branches, targets, signs)
                else:
                    count_ahead = sample(centre, first, rules.negatives, noise, state, targets, signs)
                if rules.output != SOFTMAX:
                    for t in range(first, first + count_ahead):
                        prefetch(outputs, targets[t])
                if ahead + rules.window < words:
                    prefetch(inputs, kept[ahead + rules.window])
            place = ahead - 1
            size = surround(place, radius, words, kept, around) if ahead else 0
            if size == 0:
                continue
            lines = size
            if cbow:
                lines = 1
                combine(inputs, around, size, rules.mean, old, moved)
            else:
                copy(inputs, around, size, old)
            tiles = -(-count // TILE)
            for tile in range(tiles):
                first, inside = start + tile * TILE, min(TILE, count - tile * TILE)
                scores(old, lines, outputs, targets, first, inside, errors, tile)
                if rules.output != SOFTMAX:
                    likelihoods(errors, lines, tile, signs, first, lr, product, powers)
            if rules.output == SOFTMAX:
                loss += softmax(lines, count, kept[place], lr, errors)
            for tile in range(tiles):
                first, inside = start + tile * TILE, min(TILE, count - tile * TILE)
                if cbow:
                    learn(old, 1, moved, ONLY, outputs, targets, first, inside, errors, tile)
                else:
                    learn(old, size, inputs, around, outputs, targets, first, inside, errors, tile)
            if cbow:
                spread(moved, around, size, inputs)
            predictions += lines
            windows += 1
            if windows % FOLD == 0:
                loss += folded(product, powers)
    return loss + folded(product, powers), predictions


@inlined
def draw(state: NDArray[np.uint64]) -> np.uint64:
    """The next 64 random bits: SplitMix64 (Steele et al. 2014), a counter and a mixing of its bits."""
    state[0] += STEP
    z: np.uint64 = state[0]
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return z ^ (z >> np.uint64(31))


@inlined
def below(state: NDArray[np.uint64], limit: int) -> int:
    """A whole number from 0 to limit - 1, limit below 2^32."""
    return int(np.int64(((draw(state) >> np.uint64(32)) * np.uint64(limit)) >> np.uint64(32)))


@inlined
def subsample(
    rows: Rows, first: int, last: int, keep: NDArray[np.uint32], state: NDArray[np.uint64], kept: Rows
) -> int:
    """Copy to `kept` the rows that chance leaves; how many."""
    words = 0
    for i in range(first, last):
        row = rows[i]
        kept[words] = row  # written over where it does not stay: a branch would be guessed wrong too often
        words += (row >= 0) & (np.uint32(draw(state) >> np.uint64(32)) <= keep[row])
    return words


@inlined
def surround(place: int, radius: int, words: int, kept: Rows, around: Rows) -> int:
    """Copy to `around` the rows of the window, the centre left out; how many."""
    size = 0
    for i in range(max(0, place - radius), min(words, place + radius + 1)):
        around[size] = kept[i]
        size += i != place  # the centre is written over
    return size


@inlined
def sample(
    centre: int,
    first: int,
    negatives: int,
    noise: NDArray[np.uint32],
    state: NDArray[np.uint64],
    targets: Rows,
    signs: Floats,
) -> int:
    """Write the centre and its negatives from `first` on; T. A negative that is the centre itself is left out."""
    targets[first], signs[first], count = centre, np.float32(1), 1
    for _ in range(negatives):
        chance = draw(state)
        row = np.int64(((chance >> np.uint64(32)) * np.uint64(len(noise))) >> np.uint64(32))
        other, stays = np.int64(noise[row, 1]), np.uint32(chance & LOW) <= noise[row, 0]
        row = other + (row - other) * stays  # no branch: it would be guessed wrong every other time
        targets[first + count], signs[first + count] = row, np.float32(-1)
        count += row != centre
    for t in range(first + count, first + -(-count // TILE) * TILE):
        signs[t] = np.float32(0)
    return count


@inlined
def follow(
    centre: int, first: int, paths: NDArray[np.int64], nodes: Rows, branches: Floats, targets: Rows, signs: Floats
) -> int:
    """Write the inner nodes of the centre's Huffman path from `first` on, with sign +1 for code 0; T."""
    count = 0
    for i in range(paths[centre], paths[centre + 1]):
        targets[first + count], signs[first + count] = nodes[i], branches[i]
        count += 1
    for t in range(first + count, first + -(-count // TILE) * TILE):
        signs[t] = np.float32(0)
    return count


@inlined
def copy(inputs: Floats, around: Rows, size: int, old: Floats) -> None:
    """old[c] = inputs[around[c]]."""
    for c in range(size):
        row = around[c]
        for k in range(old.shape[1]):
            old[c, k] = inputs[row, k]


@inlined
def combine(inputs: Floats, around: Rows, size: int, mean: bool, old: Floats, moved: Floats) -> None:
    """old[0] = the mean or sum of inputs[around]; moved[0] = 0."""
    share = np.float32(1) / np.float32(size) if mean else np.float32(1)
    old[0] = 0
    moved[0] = 0
    for c in range(size):
        row = around[c]
        for k in range(old.shape[1]):
            old[0, k] += inputs[row, k] * share


@inlined
def spread(moved: Floats, around: Rows, size: int, inputs: Floats) -> None:
    """inputs[around] += moved[0]: the whole error to every word of the window."""
    for c in range(size):
        row = around[c]
        for k in range(moved.shape[1]):
            inputs[row, k] += moved[0, k]


@inlined
def softmax(lines: int, count: int, centre: int, lr: np.float32, errors: Floats) -> float:
    """Scores to lr (label - p) over all words; the loss -log p(centre), summed over the rows."""
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
    """The loss that the running product holds, which begins anew."""
    loss = 0.0
    for t in range(len(product)):
        loss += math.log(product[t]) + powers[t] * math.log(2.0)
        product[t], powers[t] = np.float32(1), np.int32(0)
    return loss
