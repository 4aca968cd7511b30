"""The closed table of architectures. A new one is a file, a config dataclass, a row here and a YAML in conf/model/."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from dragoman.model.errors import UserError, unknown
from dragoman.model.layers.losses import vocabulary_loss
from dragoman.model.networks.bert import EncoderOnly, EncoderOnlyConfig
from dragoman.model.networks.gpt import DecoderOnly, DecoderOnlyConfig
from dragoman.model.networks.heads import (
    RecurrentHead,
    RecurrentHeadConfig,
    TransformerHead,
    TransformerHeadConfig,
    head_loss,
)
from dragoman.model.networks.language_network import language_loss
from dragoman.model.networks.network import Network, TranslationNetwork
from dragoman.model.networks.prefixlm import PrefixConfig, PrefixTranslation
from dragoman.model.networks.rnnenc import EncoderDecoder, EncoderDecoderConfig
from dragoman.model.networks.rnnlm import RecurrentLanguage, RecurrentLanguageConfig
from dragoman.model.networks.rnnsearch import RNNSearch, RNNSearchConfig
from dragoman.model.networks.statelm import StateLanguage, StateLanguageConfig
from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.schema import build
from dragoman.model.settings import LossConfig
from dragoman.model.text.batch import TranslationBatch
from dragoman.model.text.tokenizer import PAD
from dragoman.model.word_vectors.methods import METHODS

Loss = Callable[[Any, Any, LossConfig], tuple[Tensor, Tensor]]


def no_network(config: Any, _source: int, _target: int) -> Network:
    """Raises UserError: word vectors have this in place of a network's builder."""
    raise UserError(f"model.architecture: {config.architecture!r} is a method of word vectors, and has no network")


def no_loss(network: Any, _batch: Any, _config: LossConfig) -> tuple[Tensor, Tensor]:
    """Raises TypeError: word vectors have this in place of a loss."""
    raise TypeError(f"{network}: is no network that this table made")


@dataclass(frozen=True)
class Architecture:
    """One row: how to build a network from a configuration, and how to compute a summed loss for a batch.

    A translation network trains on `TranslationBatch`. Others train on `TextBatch` and get their one vocabulary for
    both arguments; those that label get the vocabulary of the labels for the second. Word vectors have tables instead
    of a network (`model/word_vectors`): they are trained in rounds over segments, or counted in one pass.
    """

    config: type[Any]
    network: Callable[[Any, int, int], Network] = no_network
    loss: Loss = no_loss
    kind: str = "translation"  # of its bundles (model/inference/kinds.py) and of its task (pipelines/tasks/base.py)
    counted: bool = False


def one_vocabulary(network: Callable[[Any, int], Network]) -> Callable[[Any, int, int], Network]:
    """Returns the builder of a network of one language, which takes its one vocabulary for both arguments."""
    return lambda config, vocabulary, _same: network(config, vocabulary)


def translation_loss(network: TranslationNetwork, batch: TranslationBatch, config: LossConfig) -> tuple[Tensor, Tensor]:
    """(loss, nll) summed over the `batch.items` real target tokens; padding never reaches the output layer."""
    real = (batch.target_out != PAD).flatten().nonzero()[:, 0]  # (N,)
    targets = batch.target_out.flatten().index_select(0, real)
    states = network(batch).flatten(0, 1).index_select(0, real)  # (N, D)
    return vocabulary_loss(states, targets, network.output, config.label_smoothing)


ARCHITECTURES: dict[str, Architecture] = {
    "bert": Architecture(EncoderOnlyConfig, one_vocabulary(EncoderOnly), language_loss, "masked"),
    "gpt": Architecture(DecoderOnlyConfig, one_vocabulary(DecoderOnly), language_loss, "language"),
    "prefixlm": Architecture(PrefixConfig, PrefixTranslation, translation_loss),
    "rnnenc": Architecture(EncoderDecoderConfig, EncoderDecoder, translation_loss),
    "rnnlm": Architecture(RecurrentLanguageConfig, one_vocabulary(RecurrentLanguage), language_loss, "language"),
    "rnnsearch": Architecture(RNNSearchConfig, RNNSearch, translation_loss),
    "recurrent_head": Architecture(RecurrentHeadConfig, RecurrentHead, head_loss, "labels"),
    "statelm": Architecture(StateLanguageConfig, one_vocabulary(StateLanguage), language_loss, "language"),
    "transformer": Architecture(TransformerConfig, Transformer, translation_loss),
    "transformer_head": Architecture(TransformerHeadConfig, TransformerHead, head_loss, "labels"),
    **{
        name: Architecture(config, kind="vectors", counted=name in ("one_hot", "bag_of_words", "tfidf"))
        for name, config in METHODS.items()
    },
}


def architecture(name: str) -> Architecture:
    """Returns the row of `name`."""
    if name not in ARCHITECTURES:
        raise unknown("model.architecture", name, ARCHITECTURES)
    return ARCHITECTURES[name]


def model_config(values: Mapping[str, Any]) -> Any:
    """Returns a model's typed configuration from plain values; their key `architecture` chooses its type."""
    if "architecture" not in values:
        raise UserError(f"model.architecture: missing. Choices: {', '.join(sorted(ARCHITECTURES))}")
    return build(architecture(str(values["architecture"])).config, values, "model")


def any_network(config: Any, source_vocabulary: int, target_vocabulary: int) -> Network:
    """Returns a newly initialised network of a typed configuration, whatever its kind."""
    return architecture(config.architecture).network(config, source_vocabulary, target_vocabulary)


def build_network(config: Any, source_vocabulary: int, target_vocabulary: int) -> TranslationNetwork:
    """Returns a newly initialised translation network of a typed configuration."""
    return translating(any_network(config, source_vocabulary, target_vocabulary))


def translating(network: Network) -> TranslationNetwork:
    """Returns the network as one that translates."""
    if not isinstance(network, TranslationNetwork):
        raise wrong_kind(network.config.architecture, "translation")
    return network


def wrong_kind(name: str, kind: str) -> UserError:
    choices = ", ".join(sorted(row for row, architecture in ARCHITECTURES.items() if architecture.kind == kind))
    return UserError(f"model.architecture: {name!r} is of the kind {architecture(name).kind}. Choices: {choices}")
