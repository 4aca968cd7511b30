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

from dragoman.model.bundles.directory import CONFIG, WEIGHTS, Bundle, new_bundle, read_record
from dragoman.model.bundles.weights import distinct_weights, load_weights
from dragoman.model.errors import UserError
from dragoman.model.networks.architectures import any_network, architecture, model_config
from dragoman.model.networks.heads import Head
from dragoman.model.text.labels import LabelTokenizer, Task
from dragoman.model.text.tokenizer import Tokenizer, TokenizerPair
from dragoman.model.text.tokenizers import load_pair

KIND = "labels"
OWN = ("vocabulary", "positions")  # fields of its config.json beside the shared ones


@dataclass(kw_only=True)
class LabelBundle(Bundle):
    """The bundle of a network that labels; builds the network on first use."""

    architecture: str
    positions: int | None  # the most tokens of a text; None: unlimited
    tokenizer: Tokenizer
    labels: LabelTokenizer

    @property
    def language(self) -> str:
        """Returns the language of its texts, such as "en"."""
        return self.pair

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
    """Writes the bundle atomically: into a temporary directory, then renamed; replaces an older one.

    `facts` must be JSON and holds at least `pair`, the language.
    """
    from safetensors.torch import save_file

    record = {
        "kind": KIND,
        "architecture": config.architecture,
        "model": dict(vars(config)),
        "vocabulary": tokenizers.source.vocabulary,
        "positions": getattr(network, "max_positions", None),  # recurrent networks have no limit
        "tokenizer": tokenizers.describe(),
    }
    with new_bundle(directory, record, facts) as work:
        save_file(distinct_weights(network), work / WEIGHTS)
        tokenizers.save(work)


def load_label_bundle(directory: Path) -> LabelBundle:
    """Reads and checks the bundle.

    Raises UserError: not a bundle or another kind, an unknown format version or architecture, a file that is missing or
    differs from the one saved (named), a configuration that does not fit its schema or its labels.
    """
    record, common = read_record(directory, KIND, OWN)
    config = model_config(record["model"])
    if architecture(str(record["architecture"])).kind != KIND or config.architecture != record["architecture"]:
        raise UserError(f"{directory / CONFIG}: architecture {record['architecture']!r} does not fit its model section")
    tokenizers, positions = load_pair(directory, record["tokenizer"]), record["positions"]
    labels = tokenizers.target
    if not isinstance(labels, LabelTokenizer) or labels.task != config.head:
        raise UserError(f"{directory / CONFIG}: model.head={config.head!r} does not fit the labels of the bundle")
    if record["vocabulary"] != tokenizers.source.vocabulary or not isinstance(positions, int | None):
        raise UserError(f"{directory / CONFIG}: vocabulary and positions do not fit the tokenizer of the bundle")
    return LabelBundle(
        **common, architecture=config.architecture, positions=positions, tokenizer=tokenizers.source, labels=labels
    )
