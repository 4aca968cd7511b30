"""Lets a command line in: it shows a code, its owner types that on a page where they are signed in (as RFC 8628).

What waits is kept in memory: after a restart the command line asks again.
"""

import secrets
import threading
from dataclasses import dataclass

from dragoman.model.errors import UserError
from dragoman.services.jobs.ledger.access import Person, digest_of
from dragoman.services.jobs.ledger.own_tokens import LOGIN, OwnTokens

LETTERS = "BCDFGHJKLMNPQRSTVWXZ"  # no vowels, so no words; RFC 8628, 6.1
WAITS = 600.0  # seconds until it was typed
MOST = 1000  # at once
GUESSES = 10  # wrong codes of one owner within WAITS


@dataclass
class Asked:
    """A command line that waits."""

    code: str  # that its owner types
    address: str
    until: float
    token: str | None = None  # once it is let in
    refused: bool = False


class Devices:
    """The command lines that wait to be let in."""

    def __init__(self, own: OwnTokens, lasts: float) -> None:
        """`lasts`: seconds of the tokens that are given."""
        self.own, self._lasts = own, lasts
        self._lock = threading.Lock()
        self._waiting: dict[str, Asked] = {}  # by the hash of the command line's own secret
        self._guesses: dict[str, list[float]] = {}  # times of an owner's wrong codes

    def _now(self) -> float:
        return self.own.ledger.now()

    def ask(self, address: str) -> tuple[str, str]:
        """Returns a command line's secret, and the code to type.

        Raises:
            UserError: too many wait.
        """
        secret, code = secrets.token_urlsafe(32), "".join(secrets.choice(LETTERS) for _ in range(8))
        with self._lock:
            self._forget_old()
            if len(self._waiting) >= MOST:
                raise UserError("too many sign-ins wait; try again in some minutes")
            self._waiting[digest_of(secret)] = Asked(f"{code[:4]}-{code[4:]}", address, self._now() + WAITS)
        return secret, f"{code[:4]}-{code[4:]}"

    def decide(self, person: Person, code: str, allowed: bool) -> str:
        """Lets the command line with this code in as `person`, or keeps it out; returns its address."""
        wanted = "".join(letter for letter in code.upper() if letter in LETTERS)
        with self._lock:
            self._forget_old()
            guesses = self._guesses.setdefault(person.owner, [])
            if len(guesses) >= GUESSES:
                raise UserError("too many wrong codes; try again in some minutes")
            for one in self._waiting.values():
                if one.code.replace("-", "") == wanted and one.token is None and not one.refused:
                    if allowed:
                        one.token = self.own.lend(person, LOGIN, self._lasts)
                    one.refused = not allowed
                    return one.address
            guesses.append(self._now())
        raise UserError("no command line waits with this code: it is wrong, or older than 10 minutes")

    def take(self, secret: str) -> str | None:
        """Returns the token of a command line that was let in, once; None while it waits."""
        key = digest_of(secret)
        with self._lock:
            self._forget_old()
            found = self._waiting.get(key)
            if found is not None and found.token is None and not found.refused:
                return None
            self._waiting.pop(key, None)
        if found is None or found.token is None:
            raise UserError("this sign-in was refused, or is older than 10 minutes; run dragoman login again")
        return found.token

    def _forget_old(self) -> None:
        now = self._now()
        self._waiting = {key: one for key, one in self._waiting.items() if one.until > now}
        recent = {owner: [at for at in times if now - at < WAITS] for owner, times in self._guesses.items()}
        self._guesses = {owner: times for owner, times in recent.items() if times}
