"""A loaded model that labels texts, and the facts that trace a label to its origin."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from dragoman.model.text.labelled_words import Label, TaggedWord, Words
from dragoman.services.models.origin import Origin

if TYPE_CHECKING:
    from dragoman.model.inference.labeller import Labeller

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
