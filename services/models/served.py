"""A served translation model: where it comes from, whether it is loaded, and how much it is used."""

import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dragoman.model.languages import standard_code
from dragoman.services.models.follower import Follower
from dragoman.services.models.loaded_model import LoadedModel
from dragoman.services.models.origin import Origin
from dragoman.services.models.registry import REFERENCE


class Card(NamedTuple):
    """The facts about a model that stay while it is unloaded."""

    source: str  # language
    target: str
    origin: Origin
    bytes: int  # of its weights


@dataclass(eq=False)
class Served:
    """One model of `serve.models`: the version that its reference names now."""

    reference: str  # as in the settings
    place: Follower[LoadedModel]
    weight: float = 0.0  # its share of the requests, among the models of one pair; all 0: the first answers
    requests: int = 0
    used: float = 0.0  # time of the last request, monotonic clock
    credit: float = 0.0  # requests that it is owed by its weight
    _card: Card | None = field(default=None, repr=False)
    _pairs: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # of a multilingual model

    @property
    def card(self) -> Card | None:
        """Returns the facts about the newest version; None until it was loaded once."""
        model = self.place.current
        if model is not None:
            facts = (model.source, model.target, model.origin, model.held_bytes)
            if self._card is None or facts != self._card:
                self._card, self._pairs = Card(*facts), tuple(model.prefixes)
        return self._card

    @property
    def offers(self) -> "list[Offer]":
        """Returns an offer for each pair that it translates; none until it was loaded once."""
        card = self.card
        if card is None:
            return []
        pairs = self._pairs or ((card.source, card.target),)
        return [Offer(self, card._replace(source=source, target=target)) for source, target in pairs]

    @property
    def loaded(self) -> bool:
        """Returns True if the model is in memory."""
        return self.place.current is not None

    def names(self) -> set[str]:
        """Returns all names by which a request can ask for this model and no other of its pair."""
        names = {self.reference}
        match = REFERENCE.fullmatch(self.reference)
        if match is not None and match["alias"]:
            names |= {match["alias"], f"{match['name']}@{match['alias']}"}
        if self.card is not None:
            name, version = self.card.origin.name, self.card.origin.version
            names |= {name, version, f"{name}/{version}", f"models:/{name}/{version}"}
        return names

    def take(self) -> None:
        """Counts a request."""
        self.requests += 1
        self.used = time.monotonic()

    def unload(self) -> None:
        """Frees the memory once no request uses the model; its facts stay."""
        _ = self.card
        self.place.unload()

    def facts(self) -> dict[str, Any]:
        """Returns the facts for /models."""
        card = self.card
        values = {} if card is None else _facts(card)
        return {
            "reference": self.reference,
            **{name: values.get(name) for name in ("source", "target", "name", "version", "run_id", "manifest_hash")},
            "weight": self.weight,
            "loaded": self.loaded,
            "bytes": 0 if card is None else card.bytes,
            "requests": self.requests,
            "error": self.place.error,
        }


class Offer(NamedTuple):
    """A model and one of the pairs that it translates; `card` has the pair's languages."""

    served: Served
    card: Card

    @property
    def loaded(self) -> bool:
        return self.served.loaded


def _facts(card: Card) -> dict[str, Any]:
    return {**card.origin.facts(), "source": standard_code(card.source), "target": standard_code(card.target)}
