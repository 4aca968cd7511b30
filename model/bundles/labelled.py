"""The bundle of a network that labels texts: kind "labels".

config.json         format version, kind, architecture and its configuration, vocabulary, positions, tokenizers,
                    facts, and the sha256 of every other file
model.safetensors   the weights
source.*            turns text into the network's tokens
target.json         the labels, in the order of the network's outputs; for numbers, their mean and deviation
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dragoman.model.bundles.directory import CONFIG, WEIGHTS
from dragoman.model.bundles.language import NetworkBundle, read_network, save_network
from dragoman.model.bundles.weights import load_weights
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import any_network
from dragoman.model.networks.heads import Head
from dragoman.model.text.labels import LabelTokenizer, Task
from dragoman.model.text.tokenizer import TokenizerPair

KIND = "labels"


@dataclass(kw_only=True)
class LabelBundle(NetworkBundle):
    """The bundle of a network that labels; builds the network on first use."""

    labels: LabelTokenizer

    @property
    def task(self) -> Task:
        """Returns what it answers: classes, tags or numbers."""
        return self.labels.task

    @cached_property
    def network(self) -> Head:
        """Returns the network with its weights, in evaluation mode.

        Raises UserError: weights that do not fit the configuration.
        """
        network = any_network(self.config, self.tokenizer.vocabulary, self.labels.vocabulary)
        if not isinstance(network, Head):
            raise UserError(f"{self.directory}: {self.architecture} labels no texts")
        load_weights(network, self.directory / WEIGHTS)
        return network.eval()


def save_label_bundle(
    directory: Path, *, network: Head, config: Any, tokenizers: TokenizerPair, facts: Mapping[str, Any]
) -> None:
    """Writes the bundle as `save_network` does."""
    save_network(directory, KIND, network=network, config=config, tokenizers=tokenizers, facts=facts)


def load_label_bundle(directory: Path) -> LabelBundle:
    """Reads and checks the bundle as `read_network`. Raises UserError: labels that do not fit it."""
    fields, config, tokenizers = read_network(directory, KIND)
    labels = tokenizers.target
    if not isinstance(labels, LabelTokenizer) or labels.task != config.head:
        raise UserError(f"{directory / CONFIG}: model.head={config.head!r} does not fit the labels of the bundle")
    return LabelBundle(**fields, labels=labels)
