"""API keys: who may ask, and how much; counted in the database, so that processes share limits.

A key is stored as its sha256. Requests read and count in memory only; a thread sends what was counted to the database
and reads the keys again every few seconds, so a new key, a revoked one and other processes' counts are known by then.
Keys from the file `serve.keys` have no limits and are not stored.
"""

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal

from starlette.exceptions import HTTPException

from dragoman.services.endpoint.key_store import KeyStore, Period
from dragoman.services.http.addresses import network_of
from dragoman.services.http.rates import Guesses, digest_of
from dragoman.services.repeating import Repeating

Reason = Literal["missing", "unknown", "characters", "requests"]
EVERY = 2.0  # seconds between two exchanges with the database


@dataclass(frozen=True)
class Key:
    """A key that was given with a request; without keys, nobody's."""

    name: str = ""
    digest: str = ""
    characters: int | None = None  # a month; None: no limit
    requests: int | None = None  # a minute
    address: str = ""  # of a client without a key

    @property
    def client(self) -> str:
        """Returns who takes turns with others: the key, or else the address."""
        return self.digest or self.address


NOBODY = Key()


class KeyRefusedError(HTTPException):
    """The request has no valid key, or the key's limits are reached. Each dialect has its own status for a `reason`."""

    def __init__(self, reason: Reason, message: str, retry_after: int | None = None) -> None:
        limited = reason in ("characters", "requests") or retry_after is not None
        headers = None if retry_after is None else {"Retry-After": str(retry_after)}
        super().__init__(429 if limited else 403, message, headers)
        self.reason = reason


class Keys:
    """All keys. While none was ever issued, no key is needed; once all are revoked, nobody is let in."""

    def __init__(
        self, listed: Sequence[str] = (), store: KeyStore | None = None, now: Callable[[], float] = time.time
    ) -> None:
        """`listed` are keys without limits; `store` has the others."""
        self.listed = {digest_of(secret): Key("serve.keys", digest_of(secret)) for secret in listed}
        self.store = store
        self._guesses = Guesses()
        self._now = now
        self._issued = False  # there is a stored key, even if it is revoked
        self._stored: dict[str, Key] = {}
        self._counted: dict[tuple[str, str], tuple[int, int]] = {}  # (digest, period) -> characters, requests
        self._waiting: dict[tuple[str, str], tuple[int, int]] = {}  # the part that the database does not know yet
        self._lock = threading.Lock()
        self._repeating = Repeating("API keys, counted in memory meanwhile", EVERY, self.exchange)

    @property
    def needed(self) -> bool:
        """Returns True if a request must have a key."""
        return bool(self.listed or self._issued)

    def admit(self, secret: str, address: str = "") -> Key:
        """Returns the key whose secret this is. Raises as `find`.

        Where no key is needed, `address` tells clients apart.
        """
        if self.needed and secret and (wait := self._guesses.wait(network_of(address), secret)):
            raise KeyRefusedError("unknown", "Too many wrong API keys came from this address", math.ceil(wait))
        key = self.find(secret)
        if key.digest:
            self._guesses.right(network_of(address), secret)
        if not key.digest and address:
            return nobody_at(address)
        return key

    def find(self, secret: str) -> Key:
        """Returns the key whose secret this is; NOBODY where no key is needed.

        Raises KeyRefusedError: none, or one that is not known.
        """
        if not self.needed:
            return NOBODY
        digest = digest_of(secret)  # a table of hashes says nothing about secrets by the time that it takes
        key = self.listed.get(digest) or self._stored.get(digest)
        if key is None and secret:
            raise KeyRefusedError("unknown", "Invalid API key")
        if key is None:
            raise KeyRefusedError("missing", "Please contact the server operator to get an API key")
        return key

    def charge(self, key: Key, characters: int = 0) -> None:
        """Counts a request of so many characters, unless the key's limits forbid it; then nothing is counted.

        Raises KeyRefusedError: `requests` or `characters` reach the limit.
        """
        if not key.digest:
            return
        now = self._now()
        with self._lock:
            if key.requests is not None and self._counts(key, minute_of(now))[1] >= key.requests:
                message = f"Slowdown: this API key may ask {key.requests} times a minute"
                raise KeyRefusedError("requests", message, math.ceil(60 - now % 60))
            if key.characters is not None and self._counts(key, month_of(now))[0] + characters > key.characters:
                message = f"Quota exceeded: this API key may translate {key.characters} characters a month"
                raise KeyRefusedError("characters", message)
            self._add(key, now, characters, 1)

    def give_back(self, key: Key, characters: int) -> None:
        """Uncounts the characters of a request that was not answered."""
        if key.digest:
            with self._lock:
                self._add(key, self._now(), -characters, 0)

    def usage(self, key: Key) -> tuple[int, int | None]:
        """Returns the characters that were translated for a key this month, and the limit."""
        with self._lock:
            return self._counts(key, month_of(self._now()))[0], key.characters

    def start(self) -> None:
        """Reads the stored keys, and starts the thread that exchanges with the database."""
        if self.store is not None:
            self.exchange()
            self._repeating.start()

    def stop(self) -> None:
        """Ends the thread; sends what is counted."""
        self._repeating.stop()
        if self._waiting:
            self._repeating.call()

    def exchange(self) -> None:
        """Sends the counts to the database, and reads the keys and the counts of this month and minute."""
        if self.store is None or not self.store.there():
            return
        now = self._now()
        with self._lock:
            sent, self._waiting = self._waiting, {}
        try:
            rows = [Period(digest, period, *counts) for (digest, period), counts in sent.items()]
            keys, periods = self.store.exchange(rows, (month_of(now), minute_of(now)), since=minute_of(now - 120))
        except BaseException:
            with self._lock:  # sent again next time
                for place, counts in sent.items():
                    self._waiting[place] = _sum(self._waiting.get(place, (0, 0)), counts)
            raise
        with self._lock:
            self._issued = bool(keys)
            self._stored = {
                key.digest: Key(key.name, key.digest, key.characters, key.requests)
                for key in keys
                if key.revoked is None
            }
            self._counted = {(period.digest, period.period): (period.characters, period.requests) for period in periods}
            for place, counts in self._waiting.items():
                self._counted[place] = _sum(self._counted.get(place, (0, 0)), counts)

    def _counts(self, key: Key, period: str) -> tuple[int, int]:
        return self._counted.get((key.digest, period), (0, 0))

    def _add(self, key: Key, now: float, characters: int, requests: int) -> None:
        if key.digest in self.listed:
            return
        for period in (month_of(now), minute_of(now)):
            for counts in (self._counted, self._waiting):
                place = (key.digest, period)
                counts[place] = _sum(counts.get(place, (0, 0)), (characters, requests))


@lru_cache(maxsize=4096)
def nobody_at(address: str) -> Key:
    """Returns what stands for the key of a client that has none, by its address."""
    return Key(address=network_of(address))


def month_of(now: float) -> str:
    """Returns the month in UTC, such as 2026-11."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m")


def minute_of(now: float) -> str:
    """Returns the minute in UTC, such as 2026-11-26T17:45."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M")


def _sum(counts: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return counts[0] + other[0], counts[1] + other[1]
