"""The bundle of a network of one language: a language model ("language") or a masked one ("masked").

    config.json         format version, kind, architecture and its configuration, vocabulary, positions, tokenizer,
                        facts, and the sha256 of every other file
    model.safetensors   the weights; a tied table is stored once
    tokenizer.*         turns text into the network's tokens

Nothing is pickled and nothing names code: the architecture is a row of a closed table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from dragoman.model.bundles.directory import CONFIG, WEIGHTS, Bundle, bundle_kind, new_bundle, read_record
from dragoman.model.bundles.weights import distinct_weights, load_weights
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import any_network, architecture, model_config, wrong_kind
from dragoman.model.networks.language_network import LanguageNetwork
from dragoman.model.networks.network import Network
from dragoman.model.text.tokenizer import Tokenizer, TokenizerPair
from dragoman.model.text.tokenizers import load_pair

TextKind = Literal["language", "masked"]
OWN = ("vocabulary", "positions")  # fields of its config.json beside the shared ones


@dataclass(kw_only=True)
class NetworkBundle(Bundle):
    """The bundle of a network that reads texts of one language; builds it on first use."""

    architecture: str
    positions: int | None  # the most tokens of a text; None: unlimited
    tokenizer: Tokenizer

    @property
    def language(self) -> str:
        """Returns the language of its texts, such as "en"."""
        return self.pair


def save_network(
    directory: Path, kind: str, *, network: Network, config: Any, tokenizers: TokenizerPair, facts: Mapping[str, Any]
) -> None:
    """Writes the bundle atomically: into a temporary directory, then renamed; replaces an older one.

    `facts` must be JSON and holds at least `pair`, the language.
    """
    from safetensors.torch import save_file

    record = {
        "kind": kind,
        "architecture": config.architecture,
        "model": dict(vars(config)),
        "vocabulary": tokenizers.source.vocabulary,
        "positions": getattr(network, "max_positions", None),  # recurrent networks have no limit
        "tokenizer": tokenizers.describe(),
    }
    with new_bundle(directory, record, facts) as work:
        save_file(distinct_weights(network), work / WEIGHTS)
        tokenizers.save(work)


def read_network(directory: Path, kind: str) -> tuple[dict[str, Any], Any, TokenizerPair]:
    """Reads and checks a bundle of that kind: the fields of `NetworkBundle`, the network's configuration, tokenizers.

    Raises UserError: not a bundle or another kind, an unknown format version or architecture, a file that is missing or
    differs from the one saved (named), a configuration that does not fit its schema.
    """
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
class TextBundle(NetworkBundle):
    """The bundle of a language model or a masked one."""

    kind: TextKind

    @cached_property
    def network(self) -> Network:
        """Returns the network with its weights, in evaluation mode.

        Raises UserError: weights that do not fit the configuration.
        """
        network = any_network(self.config, self.tokenizer.vocabulary, self.tokenizer.vocabulary)
        load_weights(network, self.directory / WEIGHTS)
        return network.eval()

    @property
    def language_network(self) -> LanguageNetwork:
        """Returns the network of a language model, which can continue a text.

        Raises UserError: the bundle holds a masked network.
        """
        if not isinstance(self.network, LanguageNetwork):
            raise wrong_kind(self.architecture, "language")
        return self.network


def save_text_bundle(
    directory: Path, *, network: Network, config: Any, tokenizer: Tokenizer, facts: Mapping[str, Any]
) -> None:
    """Writes the bundle as `save_network` does.

    Raises UserError: a translation architecture, facts without a language, or facts that use the bundle's own names.
    """
    kind = text_kind(config.architecture)
    if not facts.get("pair") or not isinstance(facts["pair"], str):
        raise UserError(f"bundle facts: pair must name the language such as en, got {facts.get('pair')!r}")
    pair = TokenizerPair(tokenizer, tokenizer)
    save_network(directory, kind, network=network, config=config, tokenizers=pair, facts=facts)


def load_text_bundle(directory: Path, kind: TextKind | None = None) -> TextBundle:
    """Reads and checks the bundle of a network of one language as `read_network`; `kind`: accepts only that kind."""
    expected: TextKind = kind or ("masked" if bundle_kind(directory) == "masked" else "language")
    return TextBundle(**read_network(directory, expected)[0], kind=expected)


def text_kind(name: str) -> TextKind:
    """Returns the kind of bundle that holds this architecture's networks."""
    kinds: dict[str, TextKind] = {kind: kind for kind in get_args(TextKind)}
    if (kind := architecture(name).kind) not in kinds:
        raise wrong_kind(name, "language")
    return kinds[kind]
