"""Limits by user and by address: of requests, and of guesses at secrets."""

import hashlib
import threading
import time
from collections import OrderedDict

REMEMBERED = 10_000  # users, addresses and secrets
GUESSES = 1.0, 60  # a second from one address, after the first 60


def digest_of(secret: str) -> str:
    """Returns the sha256 of a secret. That needs no salt where a secret is random bytes, not a password."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


class Rate:
    """A token bucket of requests for each user: `burst` at once, then `rate` per second."""

    def __init__(self, rate: float, burst: int) -> None:
        self.rate, self.burst = rate, burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, who: str, amount: float = 1.0) -> float:
        """Returns 0 if the request may go on, else the seconds to wait. A negative amount gives back."""
        now = time.monotonic()
        with self._lock:
            left, at = self._left.pop(who, (float(self.burst), now))
            left = min(self.burst, left + (now - at) * self.rate)
            wait = 0.0 if left >= amount else (amount - left) / self.rate
            self._left[who] = (left - amount if not wait else left, now)
            while len(self._left) > REMEMBERED:
                self._left.popitem(last=False)
        return wait


class Guesses:
    """Slows down who guesses secrets: an address over its limit is refused before its secret is looked at.

    Secrets that were right before go on, so that a guesser locks nobody out who has the same address.
    """

    def __init__(self) -> None:
        self._rate = Rate(*GUESSES)
        self._right: OrderedDict[str, None] = OrderedDict()  # hashes of secrets

    def wait(self, address: str, secret: str) -> float:
        """Returns 0 if the secret may be looked at, and counts it as wrong until `right` is called; else seconds."""
        return 0.0 if digest_of(secret) in self._right else self._rate.take(address)

    def right(self, address: str, secret: str) -> None:
        """Uncounts a secret that was right."""
        digest = digest_of(secret)
        if digest not in self._right:
            self._rate.take(address, -1.0)
            self._right[digest] = None
            while len(self._right) > REMEMBERED:
                self._right.popitem(last=False)
