"""A held-out split for language models: which tokens to score, with how much context.

A *span* is a piece of the split that is read in one go: its first tokens are context and are not scored, the rest are.
All spans together score every token once.

- Recurrent networks carry their state through a span. One span would be the whole split; several are read in parallel,
  each after a warm-up long enough to forget its start.
- Networks with a bounded context slide it over the split: each span is as long as the context, and its last `stride`
  tokens are scored.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from dragoman.model.text.text_batch import TextBatch
from dragoman.model.text.tokenizer import PAD

PARTS = 16  # parts that a recurrent network reads in parallel
WARM_UP = 1024  # most tokens read before a part


class Row(Protocol):
    """A text as one row of tokens, on disk (`text.SplitText`) or in memory (`lines.Lines`)."""

    tokens: int

    def rows(self, starts: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """Returns (B, count): the tokens from each of the positions (B,) on, wrapping around at both ends."""
        ...


@dataclass(frozen=True)
class Span:
    """Positions of targets: `begin` to `scored` is context, `scored` to `end` is scored."""

    begin: int
    scored: int
    end: int


def parts(tokens: int, count: int = PARTS, warm_up: int = WARM_UP) -> list[Span]:
    """Splits the text into `count` equal parts, each after a warm-up; one part carries the state through it all."""
    edges = [number * tokens // count for number in range(count + 1)]
    return [Span(max(0, begin - warm_up), begin, end) for begin, end in pairwise(edges) if end > begin]


def views(tokens: int, length: int, stride: int) -> list[Span]:
    """Slides a window of `length` tokens over the split by `stride`."""
    spans = [Span(0, 0, min(length, tokens))]
    while spans[-1].end < tokens:
        scored = spans[-1].end
        end = min(tokens, scored + stride)
        spans.append(Span(max(0, end - length), scored, end))
    return spans


def span_batches(
    text: Row, spans: Sequence[Span], rows: int, length: int, rank: int = 0, world: int = 1
) -> Iterator[TextBatch]:
    """Yields the spans, `rows` at a time, `length` tokens per step; every `world`-th of them for this rank.

    Targets that are context or follow a span's end are PAD; `ids` are the positions (B,) of the first targets.
    """
    mine = spans[rank::world]
    for first in range(0, len(mine), rows):
        group = mine[first : first + rows]
        begins = np.array([span.begin for span in group], dtype=np.int64)
        longest = max(span.end - span.begin for span in group)
        for at in range(0, longest, length):
            width = min(length, longest - at)
            tokens = torch.from_numpy(text.rows(begins + at - 1, width + 1))  # (B, T + 1)
            inputs, targets = tokens[:, :-1].clone(), tokens[:, 1:].clone()
            positions = torch.from_numpy(begins + at)[:, None] + torch.arange(width)  # (B, T)
            inside = positions < torch.tensor([span.end for span in group])[:, None]
            scored = inside & (positions >= torch.tensor([span.scored for span in group])[:, None])
            inputs[~inside] = PAD
            targets[~scored] = PAD
            yield TextBatch(inputs, targets, int(scored.sum()), begins + at, goes_on=at > 0)
