"""Pictures of a comparison that take its networks' journals or their attention."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from dragoman.model.alignment.attention_plots import heads_picture, maps_picture
from dragoman.model.bundles.translation import TranslationBundle
from dragoman.pipelines.comparison.alignments import sentence_maps, translations
from dragoman.pipelines.comparison.measures import TrainingRecord
from dragoman.pipelines.comparison.pictures import (
    Picture,
    describe_alignment,
    describe_heads,
    describe_learning,
    draw_learning,
    picture,
)
from dragoman.pipelines.comparison.samples import map_sentences
from dragoman.pipelines.config import Config


def curves(records: Mapping[str, TrainingRecord], labels: list[str]) -> Picture:
    said = describe_learning(records)
    text = f"The validation loss on the way: left against the tokens that were seen, right against the time. {said}."
    return picture("learning", "quality", "Learning", text, said, draw_learning(records, labels))


def attention(config: Config, bundles: Mapping[str, TranslationBundle], sources: Sequence[str]) -> Iterator[Picture]:
    """Yields one picture per sentence of all networks with attention, and all heads of those that have several."""
    sentences = map_sentences(config.compare.maps, sources, config.compare.map_count)
    if not sentences:
        return
    maps = {}
    for label, bundle in bundles.items():
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
