"""The bundle of a network: one saver for all kinds, and what their readers share.

    config.json         format version, kind, architecture and its configuration, vocabulary, positions, tokenizers,
                        facts, and the sha256 of every other file
    model.safetensors   the weights; a tied table is stored once
    tokenizer.*         turns text into the network's tokens, or source.* and target.*
    ct2/ ct2-int8/      the CTranslate2 exports, if the architecture has one

Nothing is pickled and nothing names code: the architecture is a row of a closed table. Reading one loads no torch.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.model.bundles.directory import WEIGHTS, Bundle, new_bundle
from dragoman.model.bundles.exports import FOLDERS, Quantisation
from dragoman.model.errors import UserError
from dragoman.model.text.tokenizer import Tokenizer, TokenizerPair

if TYPE_CHECKING:
    from dragoman.model.networks.network import Network

OWN = ("vocabulary", "positions")  # fields of its config.json beside the shared ones


@dataclass(kw_only=True)
class NetworkBundle(Bundle):
    """The bundle of a network, which is built on first use."""

    architecture: str

    @property
    @abstractmethod
    def vocabularies(self) -> tuple[int, int]:
        """Returns the sizes of what the network reads and of what it writes."""

    def load_network(self) -> "Network":
        """Returns the network with its weights, in evaluation mode."""
        from dragoman.model.bundles.weights import load_weights
        from dragoman.model.networks.architectures import build_network

        network = build_network(self.config, *self.vocabularies)
        load_weights(network, self.directory / WEIGHTS)
        return network.eval()


def save_bundle(
    directory: Path,
    *,
    network: "Network",
    config: Any,
    tokenizers: TokenizerPair | Tokenizer,
    facts: Mapping[str, Any],
    exports: Sequence[Quantisation] = ("float32", "int8"),
) -> None:
    """Writes the bundle atomically: into a temporary directory, then renamed; replaces an older one.

    `tokenizers`: one alone is that of both sides. `facts` must be JSON and hold at least `pair`, the languages or the
    language; `decode` in it holds the decoding defaults. Makes the `exports` that the architecture allows.
    """
    from safetensors.torch import save_file

    from dragoman.model.bundles.ctranslate2 import export
    from dragoman.model.bundles.weights import distinct_weights
    from dragoman.model.networks.architectures import architecture
    from dragoman.model.networks.network import TranslationNetwork
    from dragoman.model.networks.transformer import Transformer

    pair = tokenizers if isinstance(tokenizers, TokenizerPair) else TokenizerPair(tokenizers, tokenizers)
    kind, vocabulary = architecture(config.architecture).kind, (pair.source.vocabulary, pair.target.vocabulary)
    check_pair(facts, several=kind == "translation")
    record: dict[str, Any] = {"kind": kind, "architecture": config.architecture, "model": dict(vars(config))}
    if isinstance(network, TranslationNetwork):
        del record["kind"]
        record["vocabulary"] = dict(zip(("source", "target"), vocabulary, strict=True))
        record["positions"] = {"source": network.max_source_positions, "target": network.max_target_positions}
    else:
        record["vocabulary"] = vocabulary[0]
        record["positions"] = getattr(network, "max_positions", None)  # recurrent networks have no limit
    with new_bundle(directory, record | {"tokenizer": pair.describe()}, facts) as work:
        save_file(distinct_weights(network), work / WEIGHTS)
        pair.save(work)
        if isinstance(network, Transformer):
            for quantisation in exports:
                export(network, work / FOLDERS[quantisation], *token_names(pair), quantisation)


def check_pair(facts: Mapping[str, Any], several: bool = False) -> None:
    """Raises UserError unless the facts name the language, or if they must name `several` the two languages."""
    pair = facts.get("pair")
    if not pair or not isinstance(pair, str) or (several and "-" not in pair):
        needed = "two languages such as en-de" if several else "the language such as en"
        raise UserError(f"bundle facts: pair must name {needed}, got {pair!r}")


def token_names(tokenizers: TokenizerPair) -> tuple[list[str], list[str]]:
    """Returns the written form of every id of both sides."""
    source, target = tokenizers.source, tokenizers.target
    return source.pieces(range(source.vocabulary)), target.pieces(range(target.vocabulary))
