"""Which blocks of a plan belong to which corpus of a mix."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from dragoman.pipelines.corpus.read.staging import Block


@dataclass(frozen=True)
class Span:
    """The blocks `first` to `end` - 1 of one part, and the tags that stand before its source sentences."""

    part: str
    prefix: str
    first: int
    end: int


def spans_of(blocks: Sequence[Block], prefixes: Mapping[str, str]) -> tuple[Span, ...]:
    """Returns the spans in the order of the blocks; `prefixes`: part -> its tags as text."""
    spans = []
    for part, group in groupby(blocks, key=lambda block: block.source.part):
        numbers = [block.number for block in group]
        spans.append(Span(part, prefixes.get(part, ""), numbers[0], numbers[-1] + 1))
    return tuple(spans)
