"""All served translation models: which of them translates from one language into another.

`find` is the only place that chooses. It compares codes as languages (`EN-us`, `deu` and `pt_BR` are what they mean),
takes the nearest relative where the language itself is not served, and goes over a middle language where no model has
the pair. Of several models of one pair the first answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from dragoman.model.errors import UserError
from dragoman.model.languages import nearest, standard_code
from dragoman.services.models.follower import Follower
from dragoman.services.models.loaded_model import LoadedModel, Origin

KEPT = 1024  # lookups of codes; clients write a language in many ways


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


class NotServedError(UserError):
    """No model translates this; the message says which languages there are."""


@dataclass(frozen=True)
class Route:
    """The loaded models that translate one after the other: one, or two over a middle language."""

    models: tuple[LoadedModel, ...]

    @property
    def source(self) -> str:
        return self.models[0].source

    @property
    def target(self) -> str:
        return self.models[-1].target

    @property
    def via(self) -> str:
        """Returns the middle language; empty if there is none."""
        return standard_code(self.models[0].target) if len(self.models) > 1 else ""

    @property
    def origin(self) -> Origin:
        """Returns the origin of the answers; for an empty route one without a name."""
        return Origin.joined([model.origin for model in self.models])

    @property
    def most_alternatives(self) -> int:
        """Returns the number of translations that the last search can give besides the best one."""
        return self.models[-1].most_alternatives

    def headers(self) -> dict[str, str]:
        """Returns the headers that name the origin of an answer, and the middle language."""
        return self.origin.headers() | ({"X-Dragoman-Via": self.via} if self.via else {})


class View:
    """Lists and look-ups that hold until a model is swapped; each is made once."""

    def __init__(self, models: Sequence[Served], pivot: bool) -> None:
        self.offers = [offer for served in models for offer in served.offers]
        pairs = ((standard_code(offer.card.source), standard_code(offer.card.target)) for offer in self.offers)
        self.pairs = tuple(dict.fromkeys(pairs))  # in standard spelling, in the models' order
        self.targets = reach(self.pairs, pivot)
        self.reached = (  # the languages that are translated from and into, over a middle language too
            tuple(source for source, targets in self.targets.items() if targets),
            tuple(dict.fromkeys(chain.from_iterable(self.targets.values()))),
        )
        self.sources = lru_cache(KEPT)(self._sources)
        self.direct = lru_cache(KEPT)(self._direct)
        self.is_one = lru_cache(KEPT)(self._is_one)

    def _direct(self, source: str, target: str) -> Offer | None:
        """Returns the first model of the pair nearest to the languages that are asked for."""
        by_target = [offer for offer in self.offers if nearest(target, (offer.card.target,))]
        spoken = nearest(source, tuple(offer.card.source for offer in by_target))
        by_source = [offer for offer in by_target if offer.card.source == spoken]
        target_code = nearest(target, tuple(offer.card.target for offer in by_source))
        return next((offer for offer in by_source if offer.card.target == target_code), None)

    def _sources(self, target: str) -> tuple[str, ...]:
        """Returns the languages from which a text can be translated into `target`."""
        return tuple(source for source, targets in self.targets.items() if nearest(target, tuple(targets)))

    def _is_one(self, source: str, target: str) -> bool:
        """Returns True if a text in `source` is one in `target` already: no model translates between such relatives."""
        between = standard_code(source), standard_code(target)
        return nearest(source, (target,)) is not None and between not in self.pairs


class Catalogue:
    """The served models; their order breaks ties."""

    def __init__(self, models: Sequence[Served] = (), pivot: bool = True) -> None:
        """`pivot`: go over a middle language."""
        self.models = list(models)
        self.pivot = pivot
        self._cards: list[Card | None] = []
        self._view = View((), pivot)

    @property
    def view(self) -> View:
        """Returns what the models offer now."""
        cards = [served.card for served in self.models]
        if cards != self._cards:
            self._cards, self._view = cards, View(tuple(self.models), self.pivot)
        return self._view

    def add(self, served: Served) -> None:
        self.models.append(served)

    def find(self, source: str, target: str) -> Route:
        """Returns the models that translate from `source` into `target`.

        Raises NotServedError: an unknown language or pair.
        """
        offers = self.choose(source, target)
        return Route(tuple(offer.model() for offer in offers))

    def choose(self, source: str, target: str) -> tuple[Offer, ...]:
        """Returns what `find` would take: one model, or two that meet in a language. Raises as `find`."""
        view = self.view
        if direct := view.direct(source, target):
            return (direct,)
        middles = [offer.card.target for offer in view.offers] if self.pivot else []
        for middle in dict.fromkeys(middles):
            first, second = view.direct(source, middle), view.direct(middle, target)
            if first and second:
                return first, second
        raise NotServedError(self._refusal(source, target))

    def current(self) -> LoadedModel | None:
        """Returns the first model that is loaded."""
        return next((model.follower.current for model in self.models if model.follower.current is not None), None)

    def trouble(self) -> str | None:
        """Returns why the newest version of a model does not answer."""
        return next((model.follower.error for model in self.models if model.follower.error), None)

    @property
    def missing(self) -> list[Served]:
        """Returns the models that were never loaded."""
        return [model for model in self.models if model.card is None]

    def _refusal(self, source: str, target: str) -> str:
        targets = self.view.targets
        sources = tuple(code for code, into in targets.items() if into)
        if not nearest(source, sources):
            return f"{source} is not supported"
        if not nearest(target, tuple(chain.from_iterable(targets.values()))):
            return f"{target} is not supported"
        return f"{target} is not supported from {source}: {', '.join(targets[str(nearest(source, sources))])}"


@lru_cache(maxsize=64)
def reach(pairs: tuple[tuple[str, str], ...], pivot: bool) -> Mapping[str, Sequence[str]]:
    """Returns language -> those that models of these pairs translate it into, directly first; none for a target."""
    direct: dict[str, list[str]] = {language: [] for language in chain.from_iterable(pairs)}
    for source, target in pairs:
        direct[source].append(target)
    reached = {}
    for source, targets in direct.items():
        further = chain.from_iterable(direct[middle] for middle in targets) if pivot else ()
        reached[source] = (*targets, *(code for code in dict.fromkeys(further) if code not in (source, *targets)))
    return reached
