"""Attention of a network over its own finished translation, words to words."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dragoman.model.alignment.attention_map import AttentionMap, Weights
from dragoman.model.bundles.translation import TranslationBundle
from dragoman.model.errors import UserError
from dragoman.model.inference.aligner import open_aligner
from dragoman.model.inference.translator import network_translator
from dragoman.model.settings import AlignmentConfig
from dragoman.model.text.normalise import normalise


@dataclass(frozen=True)
class SentenceMaps:
    """One sentence as one network aligns it. Letters: L layers, H heads, W target and U source words."""

    chosen: AttentionMap  # the best head, or the mean of a layer: see model/alignment/attention_map.py
    heads: list[list[Weights]]  # L x H of (W, U), rows and columns as in `chosen`

    def cut(self) -> "SentenceMaps":
        """Returns the maps cut to a sensible length, since a translation that repeats itself can be very long."""
        most = 2 * len(self.chosen.source_tokens) + 4
        words = self.chosen.target_tokens
        if len(words) <= most:
            return self
        words = (*words[: most - 1], f"{words[most - 1]} … {len(words) - most} more")
        chosen = replace(self.chosen, target_tokens=words, weights=self.chosen.weights[:most])
        return SentenceMaps(chosen, [[head[:most] for head in layer] for layer in self.heads])


def translations(bundle: TranslationBundle, sentences: Sequence[str]) -> list[str]:
    """Translates with the bundle's own decoding settings, in PyTorch."""
    translator = network_translator(bundle.network, bundle.tokenizers, bundle.decode, bundle.normalisation)
    return [answer.text for answer in translator.translate(sentences)]


def sentence_maps(bundle: TranslationBundle, sentences: Sequence[str], texts: Sequence[str]) -> list[SentenceMaps]:
    """Returns the maps of the sentences and the network's translations `texts`; empty without attention."""
    try:
        aligner = open_aligner(bundle, AlignmentConfig(units="words"))
    except UserError:  # a network without attention: nothing to show
        return []
    sources = [normalise(sentence, aligner.form) for sentence in sentences]
    pairs = aligner.encode(sources, [ids.tolist() for ids in aligner.tokenizers.target.encode(list(texts))])
    targets = aligner.tokenizers.target.decode([pair.target for pair in pairs])
    maps: dict[int, SentenceMaps] = {}
    for row, weights in aligner.weights(pairs):  # (L, H, T, S)
        sentence = pairs[row], sources[row], targets[row]
        heads = [[aligner.make_map(*sentence, head).weights for head in layer] for layer in weights]
        chosen = aligner.make_map(*sentence, aligner.head.select(weights))
        maps[row] = SentenceMaps(chosen, heads).cut()
    return [maps[row] for row in range(len(pairs))]
