"""All served translation models: which of them translates from one language into another, and which are in memory.

`find` is the only place that chooses. It compares codes as languages (`EN-us`, `deu` and `pt_BR` are what they mean),
takes the nearest relative where the language itself is not served, shares requests among the models of one pair by
weight, and goes over a middle language where no model has the pair.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from dragoman.model.errors import UserError
from dragoman.model.languages import nearest, standard_code
from dragoman.services.models.loaded_model import LoadedModel
from dragoman.services.models.origin import Origin
from dragoman.services.models.served import Card, Offer, Served

KEPT = 1024  # lookups of codes; clients write a language in many ways
logger = logging.getLogger(__name__)


class NotServedError(UserError):
    """No model translates this; the message says which languages or versions there are."""


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
        self.models = models
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

    def named(self, version: str | None) -> list[Offer]:
        """Returns the models that were loaded once, or those of them that have the name `version`.

        Raises NotServedError: none has the name.
        """
        if version is None:
            return self.offers
        named = [offer for served in self.models if version in served.names() for offer in served.offers]
        if not named:
            cards = [served.card for served in self.models if served.card]
            versions = ", ".join(f"{card.origin.name}/{card.origin.version}" for card in cards)
            raise NotServedError(f"no served model has that version; there are {versions}")
        return named

    def _direct(self, source: str, target: str, version: str | None = None) -> list[Offer]:
        """Returns the models of the pair nearest to the languages that are asked for. Raises as `named`."""
        by_target = [offer for offer in self.named(version) if nearest(target, (offer.card.target,))]
        spoken = nearest(source, tuple(offer.card.source for offer in by_target))
        by_source = [offer for offer in by_target if offer.card.source == spoken]
        target_code = nearest(target, tuple(offer.card.target for offer in by_source))
        return [offer for offer in by_source if offer.card.target == target_code]

    def _sources(self, target: str) -> tuple[str, ...]:
        """Returns the languages from which a text can be translated into `target`."""
        return tuple(source for source, targets in self.targets.items() if nearest(target, tuple(targets)))

    def _is_one(self, source: str, target: str) -> bool:
        """Returns True if a text in `source` is one in `target` already: no model translates between such relatives."""
        between = standard_code(source), standard_code(target)
        return nearest(source, (target,)) is not None and between not in self.pairs


class Catalogue:
    """The served models; their order breaks ties."""

    def __init__(self, models: Sequence[Served] = (), *, memory: int | None = None, pivot: bool = True) -> None:
        """`memory`: bytes of weights that may be loaded at a time; None: all. `pivot`: go over a middle language."""
        self.models = list(models)
        self.memory = memory
        self.pivot = pivot
        self._lock = threading.Lock()
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
        """Adds a model, and unloads others if they do not fit into the memory together."""
        self.models.append(served)
        self.fit(keep=served)

    def find(self, source: str, target: str, version: str | None = None) -> Route:
        """Returns the models that translate from `source` into `target`, loaded; `version` asks for one by a name.

        Loads a model that was unloaded, so it may take seconds.

        Raises:
            NotServedError: an unknown language, pair or version.
            UserError, ServiceError: a model cannot be loaded again.
        """
        chosen = self.choose(source, target, version)
        return Route(tuple(map(self.load, chosen)))

    def choose(self, source: str, target: str, version: str | None = None) -> tuple[Offer, ...]:
        """Returns the models of a route, not necessarily loaded, and counts the request. Raises as `find`."""
        view = self.view
        chosen = view.direct(source, target, version)
        steps = [self._share(chosen, version)] if chosen else self._over_a_middle(view, source, target, version)
        if not steps:
            raise NotServedError(self._refusal(source, target))
        for step in steps:
            step.served.take()
        return tuple(steps)

    def load(self, offer: Offer) -> LoadedModel:
        """Returns the model; loads it first if it was unloaded, and unloads others where memory is bounded."""
        served = offer.served
        model = served.place.current
        if model is None:
            logger.info("%s was unloaded and is loaded again", served.reference)
            model = served.place.load_again()
            self.fit(keep=served)
        return model.into(offer.card.source, offer.card.target)

    def fit(self, keep: Served | None = None) -> None:
        """Unloads the least used models until the others fit into the memory; `keep` and the last one stay."""
        if self.memory is None:
            return
        with self._lock:
            loaded = sorted((model for model in self.models if model.loaded), key=lambda model: model.used)
            size = sum(offer.card.bytes for offer in loaded if offer.card)
            for offer in loaded:
                if size <= self.memory or offer is loaded[-1]:
                    break
                if offer is not keep and offer.card:
                    size -= offer.card.bytes
                    offer.unload()
                    logger.info("%s is unloaded: serve.memory=%d bytes are in use", offer.reference, self.memory)

    def current(self) -> LoadedModel | None:
        """Returns the first model that is in memory."""
        return next((model.place.current for model in self.models if model.place.current is not None), None)

    def trouble(self) -> str | None:
        """Returns why the newest version of a model does not answer."""
        return next((model.place.error for model in self.models if model.place.error), None)

    @property
    def missing(self) -> list[Served]:
        """Returns the models that were never loaded."""
        return [model for model in self.models if model.card is None]

    def wake(self) -> None:
        """Makes every followed model look for a newer version now."""
        for model in self.models:
            model.place.wake()

    def _over_a_middle(self, view: View, source: str, target: str, version: str | None) -> list[Offer]:
        """Returns two models that meet in a language, the first such in the order of the models; empty: none meet.

        A version that is asked for must be one of the two.
        """
        named = view.named(version)
        middles = [offer.card.target for offer in view.offers] if self.pivot else []
        for middle in dict.fromkeys(middles):
            first, second = view.direct(source, middle), view.direct(middle, target)
            if first and second and (version is None or any(offer in named for offer in (*first, *second))):
                by_name = [[offer for offer in step if version and offer in named] for step in (first, second)]
                return [
                    self._share(some or step, version if some else None)
                    for some, step in zip(by_name, (first, second), strict=True)
                ]
        return []

    def _share(self, offers: Sequence[Offer], version: str | None) -> Offer:
        """Returns the model whose turn it is by weight; without weights, or one that is asked for, the first."""
        if version is not None or len(offers) == 1:
            return offers[0]
        total = sum(offer.served.weight for offer in offers)
        if not total:
            return offers[0]
        with self._lock:
            for offer in offers:
                offer.served.credit += offer.served.weight
            chosen = max(offers, key=lambda offer: offer.served.credit)
            chosen.served.credit -= total
        return chosen

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
