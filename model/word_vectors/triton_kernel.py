"""word2vec as one Triton kernel: each program trains on a run of adjacent words, one window after the other.

A window's words meet the negatives (or path nodes) that they share, as in model/word_vectors/step.py. Programs run in
parallel and add to the tables by atomic additions. A program may read another's writes late, so as many windows are in
flight as there are programs: a few hundred, like the words of a step.

Needs the package triton, which torch's GPU builds include; imported only when a GPU is there.
"""

import torch
import triton
import triton.language as tl

from dragoman.model.word_vectors.draws import Draws
from dragoman.model.word_vectors.step import Step

PROGRAMS = 512


def learn(step: Step, draws: Draws, lr: float, programs: int = PROGRAMS) -> None:
    """Trains the tables and totals of `step` on all kept words of `draws`, by `programs` parallel runs of words.

    A single program takes the words in order: its result equals that of steps of one word.
    """
    if not draws.kept:
        return
    config, paths = step.config, step.paths
    words = -(-draws.kept // programs)
    if paths is None:  # for each word of the text: itself and its negatives
        targets = torch.cat([draws.rows[:, None], draws.negatives], 1)  # (M, 1 + K)
        labels = -(draws.negatives == draws.rows[:, None]).to(torch.int8)
        labels = torch.nn.functional.pad(labels, (1, 0), value=1)
        lengths = draws.rows  # not read
    else:  # for each word of the vocabulary
        targets, labels, lengths = paths.nodes, paths.labels, paths.lengths
    _learn[(-(-draws.kept // words),)](
        draws.rows,
        draws.records,
        draws.radius,
        targets,
        labels,
        lengths,
        step.vectors,
        step.contexts,
        step.totals,
        lr,
        draws.kept,
        words,
        targets.shape[1],
        WIDTH=step.vectors.shape[1],
        COLUMNS=triton.next_power_of_2(step.vectors.shape[1]),
        WINDOW=config.window,
        PLACES=triton.next_power_of_2(2 * config.window + 1),
        TREE=paths is not None,
        CBOW=config.algorithm == "cbow",
        MEAN=config.mean,
    )


@triton.jit  # type: ignore[untyped-decorator]  # triton has no types
def _learn(  # type: ignore[no-untyped-def]  # the compiler reads pointers, numbers and constants
    rows,  # (M,) int64, as in Draws
    records,  # (M,) int64
    radius,  # (M,) int64
    targets,  # (M, T) int64, TREE: nodes (V, T) int32
    labels,  # the same shape, int8: 1 yes, 0 no, -1 not counted
    lengths,  # TREE: (V,) int64
    vectors,  # (V, WIDTH) float32
    contexts,  # (V or nodes, WIDTH) float32
    totals,  # (2,) float64: loss, predictions
    lr,
    kept,
    words,  # per program
    each,  # T
    WIDTH: tl.constexpr,  # noqa: N803  # constants have upper-case names
    COLUMNS: tl.constexpr,  # noqa: N803
    WINDOW: tl.constexpr,  # noqa: N803
    PLACES: tl.constexpr,  # noqa: N803
    TREE: tl.constexpr,  # noqa: N803
    CBOW: tl.constexpr,  # noqa: N803
    MEAN: tl.constexpr,  # noqa: N803
):
    first = tl.program_id(0) * words
    place = tl.arange(0, PLACES)  # in the window, the word itself at WINDOW
    column = tl.arange(0, COLUMNS)
    inside = column < WIDTH
    far = tl.abs(place - WINDOW)
    loss = tl.zeros((PLACES,), tl.float32)
    predictions = tl.zeros((PLACES,), tl.float32)
    for word in range(first, tl.minimum(first + words, kept)):
        at = word + WINDOW
        row = tl.load(rows + at)
        near = (far > 0) & (far <= tl.load(radius + at))  # radius <= WINDOW excludes places after the window
        near = near & (tl.load(records + word + place, near, -1) == tl.load(records + at))
        around = tl.load(rows + word + place, near, 0)
        at_vectors = vectors + around[:, None] * WIDTH + column[None, :]
        both = near[:, None] & inside[None, :]
        x = tl.load(at_vectors, both, 0.0, cache_modifier=".cg")  # (PLACES, COLUMNS), bypassing this processor's cache
        pairs = near
        if CBOW:
            number = tl.sum(near.to(tl.int32), 0)
            mean = tl.sum(x, 0)
            if MEAN:
                mean = mean / tl.maximum(number, 1)
            pairs = (place == 0) & (number > 0)  # one input, at the first place
            x = tl.where(pairs[:, None], mean[None, :], 0.0)
        change = tl.zeros((PLACES, COLUMNS), tl.float32)
        if TREE:
            begin, count = row * each, tl.load(lengths + row)
        else:
            begin, count = at * each, each
        for i in range(0, count):
            target = tl.load(targets + begin + i).to(tl.int64)
            answer = tl.load(labels + begin + i)
            label, counted = answer.to(tl.float32), pairs & (answer >= 0)
            at_contexts = contexts + target * WIDTH + column
            y = tl.load(at_contexts, inside, 0.0, cache_modifier=".cg")  # (COLUMNS,)
            score = tl.sum(x * y[None, :], 1)  # (PLACES,)
            softplus = tl.maximum(score, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(score)))
            loss += tl.where(counted, softplus - label * score, 0.0)
            error = tl.where(counted, label - tl.sigmoid(score), 0.0) * lr
            change += error[:, None] * y[None, :]
            tl.atomic_add(at_contexts, tl.sum(error[:, None] * x, 0), inside)
        if CBOW:  # the whole error goes to every word of the window
            change = tl.where(both, tl.sum(change, 0)[None, :], 0.0)
        tl.atomic_add(at_vectors, change, both)
        predictions += pairs.to(tl.float32)
    tl.atomic_add(totals, tl.sum(loss, 0).to(tl.float64))
    tl.atomic_add(totals + 1, tl.sum(predictions, 0).to(tl.float64))
