"""A loaded model that labels texts, and the facts that trace a label to its origin."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from dragoman.model.bundles.directory import bundle_kind
from dragoman.model.errors import UserError
from dragoman.model.text.labelled_words import Label, TaggedWord, Words
from dragoman.services.models.named_loader import NamedLoader
from dragoman.services.models.origin import Origin
from dragoman.services.models.registry import ModelVersion

if TYPE_CHECKING:
    from dragoman.model.inference.labeller import Labeller

TEXT = "The dog sees the man."  # what every new model must label
Labelled: TypeAlias = list[Label] | list[TaggedWord]
NUMBER = "number"  # the label of a model that gives numbers


@dataclass(frozen=True, eq=False)
class LoadedLabeller:
    """A loaded model. Immutable: it is only replaced as a whole."""

    labeller: "Labeller"
    origin: Origin

    @property
    def tags(self) -> bool:
        """Returns True if it labels words, False if it labels texts."""
        return self.labeller.bundle.task == "tags"

    def label(self, texts: Sequence[Words], _nbest: int = 1) -> list[Labelled]:
        """Returns each text's labels, the likeliest first, or its words with their tags."""
        if self.tags:
            return [*self.labeller.tag(texts)]
        lines = [text.text for text in texts]
        if self.labeller.bundle.task == "numbers":
            return [[Label(NUMBER, number)] for number in self.labeller.numbers(lines)]
        return [*self.labeller.classify(lines)]

    def facts(self) -> dict[str, Any]:
        """Returns the facts for /status beside the origin."""
        return {"task": self.labeller.bundle.task, "labels": self.labeller.labels}


class LabellerLoader(NamedLoader[LoadedLabeller]):
    """Loads the model that `serve.labels` names."""

    key = "serve.labels"

    def open(self, directory: Path, version: ModelVersion) -> LoadedLabeller:
        """Opens a bundle of labels."""
        from dragoman.model.bundles.labelled import KIND, load_label_bundle  # loads torch
        from dragoman.model.inference.labeller import Labeller

        if bundle_kind(directory) != KIND:
            raise UserError(
                f"{self.key}: {version.name or directory} holds a bundle of the kind {bundle_kind(directory)}, which "
                f"labels no texts; dragoman train model=classifier_transformer makes one that does"
            )
        bundle = load_label_bundle(directory)
        served = LoadedLabeller(Labeller(bundle, self.device), Origin.of(bundle, version))
        served.label([Words.split(TEXT)])
        return served
