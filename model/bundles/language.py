"""The bundle of a network of one language: a language model ("language") or a masked one ("masked")."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from dragoman.model.bundles.directory import CONFIG, bundle_kind, read_record
from dragoman.model.bundles.network import OWN, NetworkBundle
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import architecture, model_config, wrong_kind
from dragoman.model.networks.language_network import LanguageNetwork
from dragoman.model.networks.network import Network
from dragoman.model.text.tokenizer import Tokenizer, TokenizerPair
from dragoman.model.text.tokenizer_files import load_pair

TextKind = Literal["language", "masked"]


@dataclass(kw_only=True)
class OneLanguageBundle(NetworkBundle):
    """The bundle of a network that reads texts of one language."""

    positions: int | None  # the most tokens of a text; None: unlimited
    tokenizer: Tokenizer

    @property
    def language(self) -> str:
        """Returns the language of its texts, such as "en"."""
        return self.pair


def read_network(directory: Path, kind: str) -> tuple[dict[str, Any], Any, TokenizerPair]:
    """Reads and checks a bundle of that kind: the fields of `OneLanguageBundle`, the configuration, tokenizers."""
    record, common = read_record(directory, kind, OWN)
    config = model_config(record["model"])
    if architecture(str(record["architecture"])).kind != kind or config.architecture != record["architecture"]:
        raise UserError(f"{directory / CONFIG}: architecture {record['architecture']!r} does not fit its model section")
    vocabulary, positions = record["vocabulary"], record["positions"]
    if not isinstance(vocabulary, int) or not isinstance(positions, int | None):
        raise UserError(f"{directory / CONFIG}: vocabulary and positions must be whole numbers")
    tokenizers = load_pair(directory, record["tokenizer"])
    if tokenizers.source.vocabulary != vocabulary:
        raise UserError(
            f"{directory}: its tokenizer has {tokenizers.source.vocabulary:,} ids, its network a vocabulary of "
            f"{vocabulary:,}; they are not of one bundle"
        )
    of_network = {"architecture": config.architecture, "positions": positions, "tokenizer": tokenizers.source}
    return {**common, **of_network}, config, tokenizers


@dataclass(kw_only=True)
class TextBundle(OneLanguageBundle):
    """The bundle of a language model or a masked one."""

    kind: TextKind

    @property
    def vocabularies(self) -> tuple[int, int]:
        return self.tokenizer.vocabulary, self.tokenizer.vocabulary

    @cached_property
    def network(self) -> Network:
        """Returns the network as `load_network`."""
        return self.load_network()

    @property
    def language_network(self) -> LanguageNetwork:
        """Returns the network of a language model, which can continue a text."""
        if not isinstance(self.network, LanguageNetwork):
            raise wrong_kind(self.architecture, "language")
        return self.network


def load_text_bundle(directory: Path, kind: TextKind | None = None) -> TextBundle:
    """Reads and checks the bundle of a network of one language as `read_network`; `kind`: accepts only that kind."""
    expected: TextKind = kind or ("masked" if bundle_kind(directory) == "masked" else "language")
    return TextBundle(**read_network(directory, expected)[0], kind=expected)
