"""Pictures of a comparison; one colour per network, the same in all of them.

Quality against the length of the source sentence (figure 2 of Bahdanau et al. 2015). BLEU says little about a network
that is rarely right. Its surprise at the reference can be measured for any network, and needs no search.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from dragoman.model.alignment.attention_plots import heads_picture, maps_picture
from dragoman.model.bundles.translation import TranslationBundle
from dragoman.model.inference.scoring import open_scorer
from dragoman.model.languages import languages_of
from dragoman.model.text.letters import words_of
from dragoman.pipelines.comparison.alignments import sentence_maps, translations
from dragoman.pipelines.comparison.measures import Measured, TrainingRecord
from dragoman.pipelines.evaluation.held_out import pick_evenly
from dragoman.pipelines.evaluation.metrics import quick_bleu
from dragoman.pipelines.evaluation.translation import TranslationEvaluation
from dragoman.pipelines.evaluation.word_vectors.plots import PALETTE
from dragoman.pipelines.tracking.plots import Figure, clean, panels

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
MAP_WORDS = (8, 14)  # words of a sentence whose map is readable
STEP = 5  # words in a bucket with enough sentences
FEWEST = 20  # sentences in a bucket: fewer give no useful BLEU


@dataclass
class LengthScore:
    """The scores of sentences of similar length."""

    low: int  # source words of the shortest and the longest
    high: int
    sentences: int
    mean: float  # words of the source
    bleu: float
    surprise: float  # nats per character of the reference, by teacher forcing


def all_pictures(networks: Sequence[Measured], maps: Sequence[str], map_count: int, device: str) -> dict[str, Figure]:
    """Returns name -> figure: the curves, and of networks that translate the scores by length and the attention."""
    records = {network.label: network.training for network in networks if network.training is not None}
    labels = [network.label for network in networks]
    figures = {"learning": draw_learning(records, labels)} if records else {}
    lengths, bundles, sources = {}, {}, list[str]()
    for network in networks:
        if isinstance(network.evaluation, TranslationEvaluation) and isinstance(network.bundle, TranslationBundle):
            texts, bundle = network.evaluation, network.bundle
            scored = open_scorer(bundle, device).score(texts.sources, texts.references, too_long="truncate")
            lengths[network.label] = scores_by_length(texts, [score.log_probability for score in scored])
            bundles[network.label], sources = bundle, texts.sources
    if lengths:
        figures["length"] = draw_length(lengths)
    return figures | draw_attention(bundles, map_sentences(maps, sources, map_count))


def styles(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns a colour and a marker for each label, since not everyone can tell lines apart by colour."""
    return {
        label: {"color": PALETTE[index % len(PALETTE)], "marker": MARKERS[index % len(MARKERS)], "label": label}
        for index, label in enumerate(labels)
    }


def draw_learning(records: Mapping[str, TrainingRecord], labels: Sequence[str]) -> Figure:
    """Draws the validation loss by token and by minute. `labels`: of the whole comparison."""
    figure, axes = panels(1, 2, (10.0, 4.2), "Learning")
    style = styles(labels)
    for axis, unit, column in zip(axes, ("million target tokens", "minutes of training"), (0, 1), strict=True):
        for label, record in records.items():
            points = [(point[column] / (1e6 if column == 0 else 1.0), point[2]) for point in record.validation]
            if points:
                axis.plot(*zip(*points, strict=True), markersize=3.5, linewidth=1.5, **style[label])
        axis.set_xlabel(unit, fontsize=9)
        axis.set_ylabel("validation loss, nats per token", fontsize=9)
        clean(axis)
    axes[0].legend(frameon=False, fontsize=8)
    return figure


def length_buckets(sources: Sequence[str], step: int = STEP, fewest: int = FEWEST) -> list[list[int]]:
    """Groups row numbers by the source's length in words, in buckets of `step` lengths.

    A bucket with fewer than `fewest` sentences takes in the next lengths; the rest joins the last bucket."""
    by_step: dict[int, list[int]] = {}
    for row, text in enumerate(sources):
        by_step.setdefault(max(0, len(words_of(text)) - 1) // step, []).append(row)
    buckets: list[list[int]] = []
    held: list[int] = []
    for number in sorted(by_step):
        held += by_step[number]
        if len(held) >= fewest:
            buckets.append(held)
            held = []
    if held:
        buckets[-1:] = [[*chain(*buckets[-1:]), *held]]
    return buckets


def scores_by_length(evaluation: TranslationEvaluation, log_probabilities: Sequence[float]) -> list[LengthScore]:
    """Returns every bucket's BLEU and its surprise, the shortest sentences first.

    `log_probabilities`: of the references. The surprise is per character, not per token, so that networks with
    different vocabularies can be compared.
    """
    sources, references, scores = evaluation.sources, evaluation.references, []
    language = languages_of(evaluation.pair)[-1]
    for rows in length_buckets(sources):
        words = [len(words_of(sources[row])) for row in rows]
        ours, gold = [evaluation.hypotheses[row] for row in rows], [references[row] for row in rows]
        bleu = quick_bleu(ours, gold, language, evaluation.tokenize)
        surprise = -sum(log_probabilities[row] for row in rows) / max(1, sum(map(len, gold)))
        scores.append(LengthScore(min(words), max(words), len(rows), sum(words) / len(rows), bleu, surprise))
    return scores


def draw_length(every: Mapping[str, Sequence[LengthScore]]) -> Figure:
    """Draws BLEU on the left, one line per network, and the reference's surprise on the right."""
    figure, axes = panels(1, 2, (12.0, 4.8), "Quality against the length of the source")
    first, style = next(iter(every.values())), styles(list(every))
    ticks = [f"{score.low}-{score.high}\n{score.sentences:,}" for score in first]
    units = {"bleu": "BLEU", "surprise": "surprise by the reference, nats per character"}
    for axis, (name, unit) in zip(axes, units.items(), strict=True):
        for label, scores in every.items():
            xs, ys = [score.mean for score in scores], [getattr(score, name) for score in scores]
            axis.plot(xs, ys, markersize=5, linewidth=1.7, **style[label])
        axis.set_xticks([score.mean for score in first], ticks)
        axis.set_xlabel("words of the source; sentences of that length below", fontsize=9)
        axis.set_ylabel(unit, fontsize=9)
        clean(axis)
    axes[0].set_ylim(bottom=0)
    axes[0].legend(frameon=False, fontsize=9)
    return figure


def map_sentences(texts: Sequence[str], sources: Sequence[str], count: int) -> list[str]:
    """Returns the user's sentences, or some of the held-out set, of readable length and spread over the whole set."""
    if texts:
        return list(dict.fromkeys(texts))
    low, high = MAP_WORDS
    different = [text for text in dict.fromkeys(sources) if text.strip()]
    return pick_evenly([text for text in different if low <= len(words_of(text)) <= high] or different, count)


def draw_attention(bundles: Mapping[str, TranslationBundle], sentences: Sequence[str]) -> dict[str, Figure]:
    """Draws one picture per sentence of all networks with attention, and all heads of those that have several."""
    maps, figures = {}, dict[str, Figure]()
    for label, bundle in bundles.items() if sentences else ():
        if own := sentence_maps(bundle, sentences, translations(bundle, sentences)):
            maps[label] = own
    for index in range(len(sentences) if maps else 0):
        chosen = {label: own[index].chosen for label, own in maps.items()}
        titles = [f"{label} ({sentence_map.head})" for label, sentence_map in chosen.items()]
        figures[f"alignment-{index + 1}"] = maps_picture(list(chosen.values()), titles)
    for label, (first, *_) in maps.items():
        if len(first.heads) * len(first.heads[0]) > 1:
            words = first.chosen.source_tokens, first.chosen.target_tokens
            drawn = heads_picture(np.array(first.heads), *words, f"{label}: every head")
            figures[f"heads-{label.replace('/', '-')}"] = drawn
    return figures
