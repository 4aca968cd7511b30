"""Held-out sentences for showing every network's translation, from short to long."""

from collections.abc import Mapping, Sequence

from dragoman.model.text.letters import words_of
from dragoman.pipelines.comparison.page import Sample
from dragoman.pipelines.evaluation.held_out import pick_evenly

MAP_WORDS = (8, 14)  # words of a sentence whose map is readable


def map_sentences(texts: Sequence[str], sources: Sequence[str], count: int) -> list[str]:
    """Returns the user's sentences, or some of the held-out set, of readable length and spread over the whole set."""
    if texts:
        return list(dict.fromkeys(texts))
    low, high = MAP_WORDS
    different = [text for text in dict.fromkeys(sources) if text.strip()]
    return pick_evenly([text for text in different if low <= len(words_of(text)) <= high] or different, count)


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
