"""Quality against the length of the source sentence (figure 2 of Bahdanau et al. 2015).

BLEU says little about a network that is rarely right. Its surprise at the reference can be measured for any network,
and needs no search.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.model.text.letters import words_of
from dragoman.pipelines.comparison.intervals import Interval, interval

STEP = 5  # words in a bucket with enough sentences
FEWEST = 20  # sentences in a bucket: fewer give no useful BLEU


@dataclass
class LengthScore:
    """The scores of sentences of similar length."""

    low: int  # source words of the shortest and the longest
    high: int
    sentences: int
    mean: float  # words of the source
    bleu: Interval
    surprise: float  # nats per character of the reference, by teacher forcing


def length_buckets(sources: Sequence[str], step: int = STEP, fewest: int = FEWEST) -> list[list[int]]:
    """Groups row numbers by the source's length in words, in buckets of `step` lengths.

    A bucket with fewer than `fewest` sentences takes in the next lengths; the rest joins the last bucket."""
    by_step: dict[int, list[int]] = {}
    for row, text in enumerate(sources):
        by_step.setdefault(max(0, len(words_of(text)) - 1) // step, []).append(row)
    found: list[list[int]] = []
    held: list[int] = []
    for place in sorted(by_step):
        held += by_step[place]
        if len(held) >= fewest:
            found.append(held)
            held = []
    if held:
        found[-1:] = [[*found[-1], *held]] if found else [held]
    return found


def scores_by_length(
    sources: Sequence[str],
    references: Sequence[str],
    hypotheses: Sequence[str],
    log_probabilities: Sequence[float],
    tokenize: str,
    samples: int = 1000,
) -> list[LengthScore]:
    """Returns every bucket's BLEU with its bootstrap interval, and its surprise; the shortest sentences first.

    `log_probabilities`: of the references. The surprise is per character, not per token, so that networks with
    different vocabularies can be compared.
    """
    scores = []
    for rows in length_buckets(sources):
        words = [len(words_of(sources[row])) for row in rows]
        ours, gold = [hypotheses[row] for row in rows], [references[row] for row in rows]
        found = interval(ours, gold, "bleu", tokenize, samples)
        surprise = -sum(log_probabilities[row] for row in rows) / max(1, sum(map(len, gold)))
        scores.append(LengthScore(min(words), max(words), len(rows), sum(words) / len(rows), found, surprise))
    return scores
