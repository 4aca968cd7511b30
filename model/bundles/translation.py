"""The bundle of a translation model: a directory with everything that translating needs, and its origin.

    config.json         format version, architecture and its configuration, vocabularies, tokenizers, facts,
                        and the sha256 of every other file
    model.safetensors   the weights; a tied table is stored once
    tokenizer.model     or source.* and target.*
    ct2/ ct2-int8/      the CTranslate2 exports, if the architecture has one

Nothing is pickled and nothing names code: the architecture is a row of a closed table. A bundle of word vectors
(`model/bundles/vectors.py`) is such a directory too, with the kind "vectors". `model/bundles/directory.py` writes and
checks both. Reading one loads no torch: a service that translates with the exports needs none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.model.bundles.directory import CONFIG, WEIGHTS, Bundle, new_bundle, read_record
from dragoman.model.bundles.exports import FOLDERS, Quantisation
from dragoman.model.errors import UserError
from dragoman.model.languages import MANY, languages_of
from dragoman.model.schema import build
from dragoman.model.settings import DecodeConfig
from dragoman.model.text.tags import tag_prefix
from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.model.text.tokenizers import load_pair

if TYPE_CHECKING:
    from dragoman.model.networks.network import TranslationNetwork

OWN = ("vocabulary", "positions")  # fields of its config.json beside the shared ones


@dataclass(kw_only=True)
class TranslationBundle(Bundle):
    """The bundle of a translation model; builds the network on first use."""

    architecture: str
    source_vocabulary: int
    target_vocabulary: int
    source_positions: int  # the most source tokens, with the end of sentence
    target_positions: int
    tokenizers: TokenizerPair
    decode: DecodeConfig

    @cached_property
    def network(self) -> "TranslationNetwork":
        """Returns the network with its weights, in evaluation mode.

        Raises UserError: weights that do not fit the configuration.
        """
        from dragoman.model.bundles.weights import load_weights
        from dragoman.model.networks.architectures import build_network

        network = build_network(self.config, self.source_vocabulary, self.target_vocabulary)
        load_weights(network, self.directory / WEIGHTS)
        return network.eval()

    def export_folder(self, quantisation: Quantisation) -> Path | None:
        """Returns the folder of the CTranslate2 model with that quantisation; None if the bundle has none."""
        folder = FOLDERS[quantisation]
        return self.directory / folder if f"{folder}/model.bin" in self.files else None

    def tokens(self) -> tuple[list[str], list[str]]:
        """Returns the name of each id of the source and of the target vocabulary."""
        return token_names(self.tokenizers)

    @property
    def languages(self) -> tuple[str, str]:
        """Returns the source and the target language."""
        source, target = languages_of(self.pair)
        return source, target

    @property
    def prefixes(self) -> dict[tuple[str, str], str]:
        """Returns (source, target) -> the tags before a source sentence, as text, of each pair that it translates.

        A model of one pair needs none. One of several target languages is told the target by a part's first tag.
        """
        source, target = self.languages
        parts = self.facts.get("parts") or ()
        if MANY not in (source, target) or not parts:
            return {self.languages: ""}
        prefixes_of: dict[tuple[str, str], str] = {}
        for part in parts:
            first, second = languages_of(part["pair"])
            prefixes_of.setdefault((first, second), tag_prefix(part["tags"][:1] if target == MANY else ()))
        return prefixes_of


def save_bundle(
    directory: Path,
    *,
    network: "TranslationNetwork",
    config: Any,
    tokenizers: TokenizerPair,
    facts: Mapping[str, Any],
    exports: Sequence[Quantisation] = ("float32", "int8"),
) -> None:
    """Writes the bundle atomically: into a temporary directory, then renamed; replaces an older one.

    `facts` must be JSON and hold at least `pair`; `decode` in it holds the decoding defaults. Makes the `exports` that
    the architecture allows.

    Raises UserError: facts without a pair, or facts that use the bundle's own names.
    """
    from safetensors.torch import save_file

    from dragoman.model.bundles.ctranslate2 import export, exportable
    from dragoman.model.bundles.weights import distinct_weights

    if not isinstance(facts.get("pair"), str) or "-" not in facts["pair"]:
        raise UserError(f"bundle facts: pair must name two languages such as en-de, got {facts.get('pair')!r}")
    record = {
        "architecture": config.architecture,
        "model": dict(vars(config)),
        "vocabulary": {"source": tokenizers.source.vocabulary, "target": tokenizers.target.vocabulary},
        "positions": {"source": network.max_source_positions, "target": network.max_target_positions},
        "tokenizer": tokenizers.describe(),
    }
    with new_bundle(directory, record, facts) as work:
        save_file(distinct_weights(network), work / WEIGHTS)
        tokenizers.save(work)
        if exportable(network):
            for quantisation in exports:
                export(network, work / FOLDERS[quantisation], *token_names(tokenizers), quantisation)


def load_bundle(directory: Path) -> TranslationBundle:
    """Reads and checks a bundle.

    Raises UserError: as `read_bundle`, or an unknown architecture, or a configuration that does not fit its schema.
    """
    from dragoman.model.networks.architectures import architecture

    bundle = read_bundle(directory)
    if not isinstance(bundle.config, architecture(bundle.architecture).config):
        raise UserError(f"{directory / CONFIG}: architecture {bundle.architecture!r} does not fit its model section")
    return bundle


def read_bundle(directory: Path) -> TranslationBundle:
    """Reads a bundle; the network's configuration is checked when it is needed, for that loads torch.

    Raises UserError: not a bundle, an unknown format version, a file that is missing or differs from the one saved
    (named).
    """
    record, common = read_record(directory, "translation", OWN)
    for key in OWN:
        sizes = record[key]
        if not isinstance(sizes, dict) or not all(isinstance(sizes.get(side), int) for side in ("source", "target")):
            raise UserError(f"{directory / CONFIG}: {key} must give a whole number for source and target")
    return TranslationBundle(
        **common,
        architecture=record["architecture"],
        source_vocabulary=record["vocabulary"]["source"],
        target_vocabulary=record["vocabulary"]["target"],
        source_positions=record["positions"]["source"],
        target_positions=record["positions"]["target"],
        tokenizers=load_pair(directory, record["tokenizer"]),
        decode=build(DecodeConfig, record.get("decode", {}), "decode"),
    )


def token_names(tokenizers: TokenizerPair) -> tuple[list[str], list[str]]:
    """Returns the written form of every id of both sides."""
    source, target = tokenizers.source, tokenizers.target
    return source.pieces(range(source.vocabulary)), target.pieces(range(target.vocabulary))
