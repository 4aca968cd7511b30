"""word2vec's original inner loop (Mikolov et al. 2013b): one pair at a time, each with its own negatives.

Only for skip-gram with negative sampling. kernels.py draws negatives once for all words of a window, which is several
times faster; the products are the same, with one row instead of C. The pairs of a record are listed first, so that a
pair's memory can be prefetched LEAD pairs ahead. Letters: P pairs of a record, T targets, W padded width.
"""

import numpy as np
from numpy.typing import NDArray

from dragoman.model.word_vectors.compiled import compiled, inlined
from dragoman.model.word_vectors.kernels import (
    FOLD,
    Floats,
    Places,
    Rows,
    below,
    choose,
    draw_noise,
    folded,
    rows_due,
    subsample,
)
from dragoman.model.word_vectors.products import (
    copy,
    exchange,
    learn_apart,
    learn_in_place,
    likelihoods,
    prefetch,
    scores,
)
from dragoman.model.word_vectors.replicas import MEET, Replica
from dragoman.model.word_vectors.workspace import LEAD, TILE, Pairs, Rules, SamplingTables, Scratch


@compiled
def train_pairs(
    inputs: Floats,
    outputs: Floats,
    rows: Rows,
    offsets: NDArray[np.int64],
    rules: Rules,
    tables: SamplingTables,
    scratch: Scratch,
    pairs: Pairs,
    replicas: tuple[Replica, Replica],
    lr: np.float32,
) -> tuple[float, int]:
    """Makes one pass over the records rows[offsets[r]:offsets[r + 1]]; returns (summed loss, pairs)."""
    keep, noise, _, _, _ = tables
    state, drawn, kept, spots, around, order, old, _, targets, signs, errors, product, powers = scratch
    centres, sides, counts = pairs
    (near, near_before, near_shares, near_due, near_shift), (far, far_before, far_shares, far_due, far_shift) = replicas
    near_home, far_home = (inputs.shape[1], len(near), near_shift), (outputs.shape[1], len(far), far_shift)
    room = len(targets) // len(counts)
    loss, done = 0.0, 0
    for record in range(len(offsets) - 1):
        words = subsample(rows, offsets[record], offsets[record + 1], keep, state, kept, spots, near_home)
        listed = pair_up(words, rules.window, rules.dynamic, state, kept, spots, centres, sides)
        for ahead in range(-1, listed + LEAD):  # draws negatives for ahead + 1, chooses targets for ahead, and
            pair = ahead - LEAD  # trains pair
            if 0 <= ahead < listed:
                slot = ahead % len(counts)
                counts[slot] = choose(centres[ahead], slot * room, drawn, noise, targets, signs, far_home)
                prefetch(outputs, targets, slot * room, slot * room + counts[slot])
            if ahead + 1 < listed:
                draw_noise(state, noise, drawn)
            if pair < 0:
                continue
            slot = pair % len(counts)
            start, count, around[0] = slot * room, counts[slot], sides[pair]
            if room > TILE:  # several tiles need the old row; one reads it once before it moves
                copy(inputs, around, 1, old)
                for tile in range(-(-count // TILE)):
                    first, inside = start + tile * TILE, min(TILE, count - tile * TILE)
                    scores(old, order, 1, outputs, targets, first, inside, errors, tile)
                    likelihoods(errors, 1, tile, signs, first, lr, product, powers)
                for tile in range(-(-count // TILE)):
                    first, inside = start + tile * TILE, min(TILE, count - tile * TILE)
                    learn_apart(old, 1, inputs, around, outputs, targets, first, inside, errors, tile)
            else:
                scores(inputs, around, 1, outputs, targets, start, count, errors, 0)
                likelihoods(errors, 1, 0, signs, start, lr, product, powers)
                learn_in_place(old, 1, inputs, around, outputs, targets, start, count, errors, 0)
            done += 1
            if done % FOLD == 0:
                loss += folded(product, powers)
            if done % MEET == 0:
                exchange(inputs, near, near_before, near_shares, rows_due(near_due, done // MEET))
                exchange(outputs, far, far_before, far_shares, rows_due(far_due, done // MEET))
    exchange(inputs, near, near_before, near_shares, len(near))
    exchange(outputs, far, far_before, far_shares, len(far))
    return loss + folded(product, powers), done


@inlined
def pair_up(
    words: int,
    window: int,
    dynamic: bool,
    state: NDArray[np.uint64],
    kept: Rows,
    spots: Places,
    centres: Rows,
    sides: Places,
) -> int:
    """Lists the pairs of a record: the centre's row, and the start of its neighbour's; returns P."""
    listed = 0
    for place in range(words):
        radius = 1 + below(state, window) if dynamic else window
        for i in range(max(0, place - radius), min(words, place + radius + 1)):
            centres[listed], sides[listed] = kept[place], spots[i]
            listed += i != place  # the next pair overwrites the centre paired with itself
    return listed
