"""A loaded language model or masked model, and its likeliest tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dragoman.model.bundles.directory import bundle_kind
from dragoman.model.errors import UserError
from dragoman.services.models.named_loader import NamedLoader
from dragoman.services.models.origin import Origin
from dragoman.services.models.registry import ModelVersion

if TYPE_CHECKING:
    from dragoman.model.bundles.language import TextBundle
    from dragoman.model.decoding.likely import Step

TEXT = "The dog sees the"  # what every new model must go on with
KINDS = ("language", "masked")


class Ask(NamedTuple):
    """A text to go on with or, for a masked model, with masks to fill."""

    text: str
    best: int
    steps: int = 1


class GuessedText(NamedTuple):
    """The likeliest tokens of each step, and the text with the likeliest of all."""

    steps: "list[Step]"
    text: str


@dataclass(frozen=True, eq=False)
class LoadedGuesser:
    """A loaded model. Immutable: it is only replaced as a whole."""

    bundle: "TextBundle"
    origin: Origin

    def guess(self, asks: Sequence[Ask], _nbest: int = 1) -> list[GuessedText | str]:
        """Returns one answer per text, or what is wrong with the text."""
        return [self._guess(ask) for ask in asks]

    def _guess(self, ask: Ask) -> GuessedText | str:
        from dragoman.model.decoding.likely import fill_steps, likely_path  # loads torch

        tokenizer, form = self.bundle.tokenizer, self.bundle.normalisation
        try:
            if self.bundle.kind == "masked":
                return GuessedText(*fill_steps(self.bundle.network, tokenizer, ask.text, ask.best, form))
            network = self.bundle.language_network
            steps = likely_path(network, tokenizer, ask.text, ask.best, ask.steps, form)
            return GuessedText(steps, steps[-1].text)
        except UserError as problem:
            return str(problem)

    def facts(self) -> dict[str, Any]:
        """Returns the facts for /status beside the origin."""
        return {"kind": self.bundle.kind}


class GuesserLoader(NamedLoader[LoadedGuesser]):
    """Loads the model that `serve.guesser` names."""

    key = "serve.guesser"

    def open(self, directory: Path, version: ModelVersion) -> LoadedGuesser:
        """Opens the bundle, and lets the model answer once."""
        from dragoman.model.bundles.language import load_text_bundle  # loads torch
        from dragoman.model.decoding.likely import MASK

        if bundle_kind(directory) not in KINDS:
            raise UserError(
                f"serve.guesser: {version.name or directory} holds a bundle of the kind {bundle_kind(directory)}. "
                f"Choices: {', '.join(KINDS)}"
            )
        bundle = load_text_bundle(directory)
        bundle.network.to(self.device)
        served = LoadedGuesser(bundle, Origin.of(bundle, version))
        (guessed,) = served.guess([Ask(TEXT + (f" {MASK}" if bundle.kind == "masked" else ""), 1)])
        if isinstance(guessed, str):
            raise UserError(f"serve.guesser: {guessed}")
        return served
