"""Translation memory: a text that was translated before, by people, is answered with their translation.

The units are read into memory, and again when the database has changed. An exact match is an answer; a fuzzy one, at
least as similar as `serve.fuzzy` says, is shown beside the model's answer.
"""

import logging
import threading
import time
from collections import ChainMap
from collections.abc import Iterable, Mapping

from dragoman.model.errors import UserError, reason
from dragoman.model.languages import nearest
from dragoman.services.endpoint.memory_store import EVERYBODY, MemoryRow, MemoryStore, State, Unit
from dragoman.services.texts.known import KnownTranslations as Translations
from dragoman.services.texts.known import Match, Units, comparable, most_similar

EVERY = 2.0  # seconds between two looks at the database
logger = logging.getLogger(__name__)


class Memory:
    """The known translations."""

    def __init__(self, store: MemoryStore, fuzzy: float | None = None) -> None:
        """`fuzzy` is the least similarity (0 to 1) of a similar text that is shown; None: none is."""
        self.store = store
        self.fuzzy = fuzzy
        self._pairs: dict[tuple[str, str, str], Units] = {}  # by owner, source and target; replaced, never changed
        self._state = State(0, 0.0)
        self._looked = float("-inf")
        self._lock = threading.Lock()

    def exact(self, source: str, target: str, text: str, owner: str = EVERYBODY) -> Match | None:
        """Returns the known translation of this very text; the owner's own goes before everybody's."""
        pairs = self._of(source, target, owner) if self._pairs else []
        comparable_text = comparable(text) if pairs else ""
        return next(filter(None, (units.get(comparable_text) for units in pairs)), None)

    def similar(self, source: str, target: str, text: str, owner: str = EVERYBODY) -> Match | None:
        """Returns the known translation of the most similar text, if one is similar enough."""
        comparable_text = comparable(text)
        if self.fuzzy is None:
            return None
        best: Match | None = None
        for units in self._of(source, target, owner):
            similar_units = most_similar(units, comparable_text, best.score if best else 100 * self.fuzzy)
            if similar_units is not None and (best is None or similar_units.score > best.score):
                best = similar_units
        return best

    def all(self, source: str, target: str, owner: str = EVERYBODY) -> Translations | None:
        """Returns all known translations of these languages, the owner's before everybody's; None: there are none."""
        units = self._of(source, target, owner)
        return Translations(ChainMap(*units)) if units else None

    def suggest(self, unit: Unit, owner: str = EVERYBODY) -> None:
        """Stores a translation that a user gave. Raises UserError, ServiceError: the database cannot be used."""
        self.store.put([unit], "suggestion", owner)
        self.refresh()

    def look(self) -> None:
        """Reads what is new in the database, at most every few seconds; an error is logged and the units stay."""
        if not self.due:
            return
        try:
            self.refresh()
        except Exception as problem:
            said = str(problem) if isinstance(problem, UserError) else reason(problem)
            logger.warning("the translation memory cannot be read again: %s", said)

    @property
    def due(self) -> bool:
        """Returns True if `look` would read the database."""
        return time.monotonic() - self._looked >= EVERY

    def refresh(self) -> None:
        """Reads what is new in the database."""
        with self._lock:
            self._looked = time.monotonic()
            if not self.store.there():
                return
            state = self.store.state()
            if state == self._state:
                return
            pairs = _merged(self._pairs, self.store.rows(self._state.changed))
            if sum(map(len, pairs.values())) != state.rows:  # some were deleted, or another machine's clock is behind
                pairs = _merged({}, self.store.rows())
            self._pairs, self._state = pairs, state

    def _of(self, source: str, target: str, owner: str) -> list[Units]:
        """Returns the units of these languages or their nearest relatives, the owner's first."""
        groups = [
            (key[0] == EVERYBODY, units)
            for key, units in self._pairs.items()
            if key[0] in (owner, EVERYBODY) and nearest(source, (key[1],)) and nearest(target, (key[2],))
        ]
        return [units for _, units in sorted(groups, key=lambda group: group[0])]


def _merged(
    pairs: Mapping[tuple[str, str, str], Units], rows: Iterable[MemoryRow]
) -> dict[tuple[str, str, str], Units]:
    """Returns the units with those of the rows; `pairs` stay as they are, for whoever reads them."""
    merged = dict(pairs)
    copied: set[tuple[str, str, str]] = set()
    for row in rows:
        key = (row.owner, row.source, row.target)
        if key not in copied:
            copied.add(key)
            merged[key] = dict(merged.get(key, {}))
        merged[key][comparable(row.text)] = Match(row.text, row.translation, 100.0, row.origin)
    return merged
