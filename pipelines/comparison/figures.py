"""All pictures of a comparison, drawn from its measures and from the networks."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from dragoman.model.alignment.attention_plots import heads_picture, maps_picture
from dragoman.model.bundles.translation import TranslationBundle
from dragoman.pipelines.comparison.alignments import sentence_maps, translations
from dragoman.pipelines.comparison.measures import Measures, TrainingRecord
from dragoman.pipelines.comparison.pictures import (
    Picture,
    describe_alignment,
    describe_heads,
    describe_learning,
    describe_length,
    describe_scores,
    draw_learning,
    draw_length,
    draw_scores,
    png,
)
from dragoman.pipelines.comparison.samples import map_sentences
from dragoman.pipelines.config import Config
from dragoman.pipelines.tracking.plots import Figure

logger = logging.getLogger(__name__)


@dataclass
class Compared:
    """All results by label, in the order of the comparison."""

    measures: dict[str, Measures]
    bundles: dict[str, TranslationBundle]
    records: dict[str, TrainingRecord]  # of networks whose journal exists
    sources: list[str]
    references: list[str]
    runs: dict[str, list[Measures]]  # one per seed

    @property
    def labels(self) -> list[str]:
        return list(self.measures)


def draw_figures(config: Config, compared: Compared) -> Iterator[Picture]:
    logger.info("drawing the pictures")
    yield quality(compared)
    if compared.records:
        yield curves(compared.records, compared.labels)
    yield by_length(compared)
    yield from attention(config, compared)


def quality(compared: Compared) -> Picture:
    every = list(compared.measures.values())
    scores = {"BLEU": [measure.bleu for measure in every], "chrF": [measure.chrf for measure in every]}
    samples = "Dots are the scores of the whole set; lines reach as far as 95 % of resampled sets' scores."
    if any(len(runs) > 1 for runs in compared.runs.values()):
        samples = "Dots are means over seeds; lines cover 95 % of resampled sentences and seeds."
    return picture(
        "scores", "quality", "Quality", samples, describe_scores(every), draw_scores(compared.labels, scores)
    )


def curves(records: Mapping[str, TrainingRecord], labels: list[str]) -> Picture:
    said = describe_learning(records)
    text = f"The validation loss on the way: left against the tokens that were seen, right against the time. {said}."
    return picture("learning", "quality", "Learning", text, said, draw_learning(records, labels))


def by_length(compared: Compared) -> Picture:
    lengths = {label: measure.lengths for label, measure in compared.measures.items()}
    said = describe_length(lengths)
    text = (
        "A fixed context stores every sentence in one vector of the same size; attention reads a vector per "
        f"word. Left: BLEU, after figure 2 of Bahdanau et al. 2015; right: how much the reference surprises each "
        f"network, which also separates weak networks. {said}"
    )
    return picture("length", "length", "Quality against length", text, said, draw_length(lengths))


def attention(config: Config, compared: Compared) -> Iterator[Picture]:
    """Yields one picture per sentence of all networks with attention, and all heads of those that have several."""
    sentences = map_sentences(config.compare.maps, compared.sources, config.compare.map_count)
    if not sentences:
        return
    maps = {}
    for label, bundle in compared.bundles.items():
        own = sentence_maps(bundle, sentences, translations(bundle, sentences))
        if own:
            maps[label] = own
    for place, sentence in enumerate(sentences if maps else []):
        chosen = {label: own[place].chosen for label, own in maps.items()}
        text = (
            f"A row is a word of the translation, a column a word of “{sentence}”; darker cells have more "
            "attention. After figure 3 of Bahdanau et al. 2015."
        )
        figure = maps_picture(
            list(chosen.values()), [f"{label} ({sentence_map.head})" for label, sentence_map in chosen.items()]
        )
        yield picture(f"alignment-{place + 1}", "attention", f"Attention, sentence {place + 1}", text,
                      describe_alignment(chosen), figure)  # fmt: skip
    for label, own in maps.items():
        if len(own[0].heads) * len(own[0].heads[0]) > 1:
            words = own[0].chosen
            drawn = heads_picture(
                np.array(own[0].heads), words.source_tokens, words.target_tokens, f"{label}: every head"
            )
            said = describe_heads(own[0])
            text = f"Each head of {label} over the source, for “{sentences[0]}”. {said}"
            name = f"heads-{label.replace('/', '-')}"
            yield picture(name, "attention", f"Heads of {label}", text, said, drawn)


def picture(name: str, section: str, title: str, text: str, alt: str, figure: Figure) -> Picture:
    """Returns the figure as a PNG with its texts."""
    return Picture(name, title, text, alt, png(figure), section)
