"""A served translation model: where it comes from, and how much it is used."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dragoman.model.languages import standard_code
from dragoman.services.models.follower import Follower
from dragoman.services.models.loaded_model import LoadedModel
from dragoman.services.models.origin import Origin


class Card(NamedTuple):
    """The facts about a loaded model."""

    source: str  # language
    target: str
    origin: Origin
    bytes: int  # of its weights


@dataclass(eq=False)
class Served:
    """One model of `serve.models`: the version that its reference names now."""

    reference: str  # as in the settings
    follower: Follower[LoadedModel]
    requests: int = 0
    _card: Card | None = field(default=None, repr=False)

    @property
    def card(self) -> Card | None:
        """Returns the facts about the newest version, the same object until it is swapped; None until one is loaded."""
        model = self.follower.current
        if model is None:
            return None
        facts = (model.source, model.target, model.origin, model.bytes)
        if facts != self._card:
            self._card = Card(*facts)
        return self._card

    @property
    def offers(self) -> "list[Offer]":
        """Returns an offer for each pair that it translates; none until it is loaded."""
        card, model = self.card, self.follower.current
        if card is None or model is None:
            return []
        pairs = tuple(model.prefixes) or ((card.source, card.target),)
        return [Offer(self, card._replace(source=source, target=target)) for source, target in pairs]

    def facts(self) -> dict[str, Any]:
        """Returns the facts for /models."""
        card = self.card
        values = {} if card is None else _facts(card)
        return {
            "reference": self.reference,
            **{name: values.get(name) for name in ("source", "target", "name", "version", "run_id", "manifest_hash")},
            "bytes": 0 if card is None else card.bytes,
            "requests": self.requests,
            "error": self.follower.error,
        }


class Offer(NamedTuple):
    """A model and one of the pairs that it translates; `card` has the pair's languages."""

    served: Served
    card: Card

    def model(self) -> LoadedModel:
        """Returns the loaded model for this pair, and counts the request."""
        self.served.requests += 1
        model = self.served.follower.current
        assert model is not None, "an offer is made by a loaded model, which is replaced and never unloaded"
        return model.into(self.card.source, self.card.target)


def _facts(card: Card) -> dict[str, Any]:
    return {**card.origin.facts(), "source": standard_code(card.source), "target": standard_code(card.target)}
