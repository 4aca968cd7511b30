"""The bundle of a translation model. Reading one loads no torch: a service with its exports needs none."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.model.bundles.directory import CONFIG, read_record
from dragoman.model.bundles.exports import FOLDERS, Quantisation
from dragoman.model.bundles.network import OWN, NetworkBundle, token_names
from dragoman.model.errors import UserError
from dragoman.model.languages import MANY, languages_of
from dragoman.model.schema import build
from dragoman.model.settings import DecodeConfig
from dragoman.model.text.tags import tag_prefix
from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.model.text.tokenizer_files import load_pair

if TYPE_CHECKING:
    from dragoman.model.networks.network import TranslationNetwork


@dataclass(kw_only=True)
class TranslationBundle(NetworkBundle):
    """The bundle of a translation model."""

    source_vocabulary: int
    target_vocabulary: int
    source_positions: int  # the most source tokens, with the end of sentence
    target_positions: int
    tokenizers: TokenizerPair
    decode: DecodeConfig

    @property
    def vocabularies(self) -> tuple[int, int]:
        return self.source_vocabulary, self.target_vocabulary

    @cached_property
    def network(self) -> "TranslationNetwork":
        """Returns the network as `load_network`."""
        from dragoman.model.networks.architectures import wrong_kind
        from dragoman.model.networks.network import TranslationNetwork

        network = self.load_network()
        if not isinstance(network, TranslationNetwork):
            raise wrong_kind(self.architecture, "translation")
        return network

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


def load_bundle(directory: Path) -> TranslationBundle:
    """Reads and checks a bundle."""
    from dragoman.model.networks.architectures import architecture

    bundle = read_bundle(directory)
    if not isinstance(bundle.config, architecture(bundle.architecture).config):
        raise UserError(f"{directory / CONFIG}: architecture {bundle.architecture!r} does not fit its model section")
    return bundle


def read_bundle(directory: Path) -> TranslationBundle:
    """Reads a bundle; the network's configuration is checked when it is needed, for that loads torch."""
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
