"""The bundle of a network that labels texts: kind "labels".

Its `target.json` holds the labels, in the order of the network's outputs.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dragoman.model.bundles.directory import CONFIG
from dragoman.model.bundles.language import OneLanguageBundle, read_network
from dragoman.model.errors import UserError
from dragoman.model.networks.heads import Head
from dragoman.model.text.labels import LabelTokenizer
from dragoman.model.text.tokenizer import LabelTask

KIND = "labels"


@dataclass(kw_only=True)
class LabelBundle(OneLanguageBundle):
    """The bundle of a network that labels."""

    labels: LabelTokenizer

    @property
    def task(self) -> LabelTask:
        """Returns what it answers: classes or tags."""
        return self.labels.task

    @property
    def vocabularies(self) -> tuple[int, int]:
        return self.tokenizer.vocabulary, self.labels.vocabulary

    @cached_property
    def network(self) -> Head:
        """Returns the network as `load_network`."""
        network = self.load_network()
        if not isinstance(network, Head):
            raise UserError(f"{self.directory}: {self.architecture} labels no texts")
        return network


def load_label_bundle(directory: Path) -> LabelBundle:
    """Reads and checks the bundle as `read_network`."""
    fields, config, tokenizers = read_network(directory, KIND)
    labels = tokenizers.target
    if not isinstance(labels, LabelTokenizer) or labels.task != config.head:
        raise UserError(f"{directory / CONFIG}: model.head={config.head!r} does not fit the labels of the bundle")
    return LabelBundle(**fields, labels=labels)
