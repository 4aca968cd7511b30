"""The bundle of a network of one language: a language model ("language") or a masked one ("masked").

    config.json         format version, kind, architecture and its configuration, vocabulary, positions, tokenizer,
                        facts, and the sha256 of every other file
    model.safetensors   the weights; a tied table is stored once
    tokenizer.*         what turns text into the network's tokens

Nothing is pickled and nothing names code: the architecture is a row of a closed table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from model.bundles.directory import CONFIG, WEIGHTS, Bundle, bundle_kind, new_bundle, read_record
from model.bundles.translation import distinct_weights, load_weights
from model.errors import UserError
from model.networks.architectures import any_network, architecture, model_config, wrong_kind
from model.networks.language_network import LanguageNetwork
from model.networks.network import Network
from model.text.tokenizer import Tokenizer, TokenizerPair
from model.text.tokenizers import load_pair

TextKind = Literal["language", "masked"]
OWN = ("vocabulary", "positions")  # what its config.json says beside what every bundle's does


@dataclass(kw_only=True)
class TextBundle(Bundle):
    """The bundle of a network of one language; the network is built when it is first asked for."""

    kind: TextKind
    architecture: str
    vocabulary: int
    positions: int | None  # the most tokens of a text; None: no bound
    tokenizer: Tokenizer

    @property
    def language(self) -> str:
        """Of its texts, such as "en"."""
        return self.pair

    @cached_property
    def network(self) -> Network:
        """The network with its weights, in evaluation mode.

        Raises:
            UserError: weights that do not fit the configuration.
        """
        network = any_network(self.config, self.vocabulary, self.vocabulary)
        load_weights(network, self.directory / WEIGHTS)
        return network.eval()

    @property
    def language_network(self) -> LanguageNetwork:
        """The same of a language model, which can go on with a text.

        Raises:
            UserError: the bundle is of a masked one.
        """
        if not isinstance(self.network, LanguageNetwork):
            raise wrong_kind(self.architecture, "language")
        return self.network


def save_text_bundle(
    directory: Path, *, network: Network, config: Any, tokenizer: Tokenizer, facts: Mapping[str, Any]
) -> None:
    """Write the bundle whole: into a temporary directory beside it, then renamed; an older one is replaced.

    `facts` must be JSON and holds at least `pair`, the language.

    Raises:
        UserError: an architecture of translations, facts without a language or that use a name of the bundle's own.
    """
    from safetensors.torch import save_file

    kind = text_kind(config.architecture)
    if not facts.get("pair") or not isinstance(facts["pair"], str):
        raise UserError(f"bundle facts: pair must name the language such as en, got {facts.get('pair')!r}")
    tokenizers = TokenizerPair(tokenizer, tokenizer)
    record = {
        "kind": kind,
        "architecture": config.architecture,
        "model": dict(vars(config)),
        "vocabulary": tokenizer.vocabulary,
        "positions": getattr(network, "max_positions", None),  # recurrent networks have no bound
        "tokenizer": tokenizers.describe(),
    }
    with new_bundle(directory, record, facts) as work:
        save_file(distinct_weights(network), work / WEIGHTS)
        tokenizers.save(work)


def load_text_bundle(directory: Path, kind: TextKind | None = None) -> TextBundle:
    """Read and check a bundle of a network of one language; of `kind`, where only one will do.

    Raises:
        UserError: not a bundle or one of another kind, an unknown format version or architecture, a file that is
            missing or not the one that was saved (named), a configuration that does not fit its schema.
    """
    found = bundle_kind(directory)
    wanted: TextKind = kind or ("masked" if found == "masked" else "language")
    record, common = read_record(directory, wanted, OWN)
    row = architecture(str(record["architecture"]))
    config = model_config(record["model"])
    if not isinstance(config, row.config) or row.kind != wanted:
        raise UserError(f"{directory / CONFIG}: architecture {record['architecture']!r} does not fit its model section")
    vocabulary, positions = record["vocabulary"], record["positions"]
    if not isinstance(vocabulary, int) or not isinstance(positions, int | None):
        raise UserError(f"{directory / CONFIG}: vocabulary and positions must be whole numbers")
    tokenizer = load_pair(directory, record["tokenizer"]).source
    if tokenizer.vocabulary != vocabulary:
        raise UserError(
            f"{directory}: its tokenizer has {tokenizer.vocabulary:,} ids, its network a vocabulary of {vocabulary:,}; "
            f"they are not of one bundle"
        )
    return TextBundle(
        **common,
        kind=wanted,
        architecture=config.architecture,
        config=config,
        vocabulary=vocabulary,
        positions=positions,
        tokenizer=tokenizer,
    )


def text_kind(name: str) -> TextKind:
    """The kind of bundle that an architecture's networks are kept in.

    Raises:
        UserError: an unknown architecture, or one of another kind.
    """
    kind = architecture(name).kind
    for found in get_args(TextKind):
        if kind == found:
            return found  # type: ignore[no-any-return]  # one of the literals
    raise wrong_kind(name, "language")
