"""The closed table of architectures. A new one is a file with its config and row, a name here, a YAML in conf/model."""

from collections.abc import Mapping
from typing import Any

from dragoman.model.errors import UserError, unknown
from dragoman.model.loaded import loaded
from dragoman.model.networks.network import Architecture, Network
from dragoman.model.schema import build
from dragoman.model.word_vectors.methods import METHODS, method_type

# A row, or where it is: it is loaded on demand, with the layers that only its network needs.
ARCHITECTURES: dict[str, Architecture | str] = {
    "bert": "dragoman.model.networks.bert:BERT",
    "gpt": "dragoman.model.networks.gpt:GPT",
    "prefixlm": "dragoman.model.networks.prefixlm:PREFIXLM",
    "rnnenc": "dragoman.model.networks.rnnenc:RNNENC",
    "rnnlm": "dragoman.model.networks.rnnlm:RNNLM",
    "rnnsearch": "dragoman.model.networks.rnnsearch:RNNSEARCH",
    "recurrent_head": "dragoman.model.networks.heads:RECURRENT_HEAD",
    "statelm": "dragoman.model.networks.statelm:STATELM",
    "transformer": "dragoman.model.networks.transformer:TRANSFORMER",
    "transformer_head": "dragoman.model.networks.heads:TRANSFORMER_HEAD",
    **METHODS,
}


def architecture(name: str) -> Architecture:
    """Returns the row of `name`."""
    if name not in ARCHITECTURES:
        raise unknown("model.architecture", name, ARCHITECTURES)
    if name in METHODS:
        return Architecture(method_type(name), kind="vectors", counted=name in ("one_hot", "bag_of_words", "tfidf"))
    row = ARCHITECTURES[name]
    return loaded(row) if isinstance(row, str) else row


def model_config(values: Mapping[str, Any]) -> Any:
    """Returns a model's typed configuration from plain values; their key `architecture` chooses its type."""
    if "architecture" not in values:
        raise UserError(f"model.architecture: missing. Choices: {', '.join(sorted(ARCHITECTURES))}")
    return build(architecture(str(values["architecture"])).config, values, "model")


def build_network(config: Any, source_vocabulary: int, target_vocabulary: int) -> Network:
    """Returns a newly initialised network of a typed configuration, whatever its kind."""
    return architecture(config.architecture).network(config, source_vocabulary, target_vocabulary)


def wrong_kind(name: str, kind: str) -> UserError:
    """Returns the error for an architecture of another kind than the one that is needed."""
    choices = ", ".join(sorted(row for row in ARCHITECTURES if architecture(row).kind == kind))
    return UserError(f"model.architecture: {name!r} is of the kind {architecture(name).kind}. Choices: {choices}")
