"""Held-out sentences for showing every network's translation, from short to long."""

from collections.abc import Mapping, Sequence

from dragoman.model.text.letters import words_of
from dragoman.pipelines.comparison.page import Sample
from dragoman.pipelines.comparison.sentences import pick_evenly

COUNT = 4


def samples(
    sources: Sequence[str], references: Sequence[str], hypotheses: Mapping[str, Sequence[str]], count: int = COUNT
) -> list[Sample]:
    """Picks `count` distinct sentences with lengths evenly between the shortest and the longest."""
    order = sorted(
        (row for row, text in enumerate(sources) if text.strip()), key=lambda row: (len(words_of(sources[row])), row)
    )
    rows = pick_evenly(order, count)
    return [
        Sample(sources[row], references[row], {label: texts[row] for label, texts in hypotheses.items()})
        for row in dict.fromkeys(rows)
    ]
