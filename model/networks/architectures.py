"""The closed table of networks. A new one is a file, a config dataclass, a row here and a YAML in conf/model/."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from model.errors import UserError, unknown
from model.layers.losses import vocabulary_loss
from model.networks.bert import EncoderOnly, EncoderOnlyConfig
from model.networks.gpt import DecoderOnly, DecoderOnlyConfig
from model.networks.language_network import LanguageNetwork, language_loss
from model.networks.network import Network, TranslationNetwork
from model.networks.prefixlm import PrefixConfig, PrefixTranslation
from model.networks.rnnenc import EncoderDecoder, EncoderDecoderConfig
from model.networks.rnnlm import RecurrentLanguage, RecurrentLanguageConfig
from model.networks.rnnsearch import RNNSearch, RNNSearchConfig
from model.networks.transformer import Transformer, TransformerConfig
from model.schema import build
from model.settings import LossConfig
from model.text.batch import TranslationBatch
from model.text.tokenizer import PAD

Family = Literal["translation", "language", "masked"]
Loss = Callable[[Any, Any, LossConfig], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Architecture:
    """One row: how a configuration becomes a network, and a network and a batch a summed loss.

    A translation network trains on `TranslationBatch`; one of the other families on `TextBatch`, and is built with
    its one vocabulary in both places.
    """

    network: Callable[[Any, int, int], Network]
    config: type[Any]
    loss: Loss
    family: Family = "translation"


def one_vocabulary(network: Callable[[Any, int], Network]) -> Callable[[Any, int, int], Network]:
    """A row's builder for a network of one language, whose vocabulary stands in both places."""
    return lambda config, vocabulary, _same: network(config, vocabulary)


def translation_loss(network: TranslationNetwork, batch: TranslationBatch, config: LossConfig) -> tuple[Tensor, Tensor]:
    """(loss, nll) summed over the `batch.items` real target tokens; padding never reaches the output layer."""
    states = network(batch)  # (B, T, D)
    real = (batch.target_out != PAD).flatten().nonzero()[:, 0]  # (N,)
    states = states.flatten(0, 1).index_select(0, real)
    targets = batch.target_out.flatten().index_select(0, real)
    return vocabulary_loss(states, targets, network.output, config.label_smoothing)


ARCHITECTURES: dict[str, Architecture] = {
    "bert": Architecture(one_vocabulary(EncoderOnly), EncoderOnlyConfig, language_loss, "masked"),
    "gpt": Architecture(one_vocabulary(DecoderOnly), DecoderOnlyConfig, language_loss, "language"),
    "prefixlm": Architecture(PrefixTranslation, PrefixConfig, translation_loss),
    "rnnenc": Architecture(EncoderDecoder, EncoderDecoderConfig, translation_loss),
    "rnnlm": Architecture(one_vocabulary(RecurrentLanguage), RecurrentLanguageConfig, language_loss, "language"),
    "rnnsearch": Architecture(RNNSearch, RNNSearchConfig, translation_loss),
    "transformer": Architecture(Transformer, TransformerConfig, translation_loss),
}


def architecture(name: str) -> Architecture:
    """The row of `name`.

    Raises:
        UserError: a name that is not in the table.
    """
    if name not in ARCHITECTURES:
        raise unknown("model.architecture", name, ARCHITECTURES)
    return ARCHITECTURES[name]


def model_config(values: Mapping[str, Any]) -> Any:
    """The typed configuration of one network from plain values, chosen by their key `architecture`.

    Raises:
        UserError: no or an unknown architecture, an unknown key, a value of the wrong type.
    """
    if "architecture" not in values:
        raise UserError(f"model.architecture: missing. Choices: {', '.join(sorted(ARCHITECTURES))}")
    return build(architecture(str(values["architecture"])).config, values, "model")


def any_network(config: Any, source_vocabulary: int, target_vocabulary: int) -> Network:
    """A freshly initialised network of a typed configuration, whatever its family."""
    return architecture(config.architecture).network(config, source_vocabulary, target_vocabulary)


def build_network(config: Any, source_vocabulary: int, target_vocabulary: int) -> TranslationNetwork:
    """A freshly initialised translation network of a typed configuration.

    Raises:
        UserError: the architecture is of another family.
    """
    network = any_network(config, source_vocabulary, target_vocabulary)
    if not isinstance(network, TranslationNetwork):
        raise wrong_family(config.architecture, "translation")
    return network


def build_language_network(config: Any, vocabulary: int) -> LanguageNetwork:
    """A freshly initialised language model of a typed configuration.

    Raises:
        UserError: the architecture is of another family.
    """
    network = any_network(config, vocabulary, vocabulary)
    if not isinstance(network, LanguageNetwork):
        raise wrong_family(config.architecture, "language")
    return network


def wrong_family(name: str, wanted: Family) -> UserError:
    """The error for an architecture where one of the family `wanted` is needed."""
    choices = ", ".join(sorted(row for row, found in ARCHITECTURES.items() if found.family == wanted))
    return UserError(f"model.architecture: {name!r} is of the {architecture(name).family} family. Choices: {choices}")
