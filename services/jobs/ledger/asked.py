"""The request that a thread works for: who asks, and what has been changed for them. The access log keeps it.

A context variable carries it from the server into the threads that answer, so no route has to pass it on.
"""

from contextvars import ContextVar
from dataclasses import dataclass, field

MOST = 20  # changes that are named


@dataclass
class RequestFacts:
    """One request so far."""

    person: str = ""  # the owner's name; empty: unknown
    token: str = ""  # the name of their token
    changes: list[str] = field(default_factory=list)  # made for them, or why they were refused
    count: int = 0

    def note(self, change: str) -> None:
        """Records a change, or a refusal's reason."""
        self.count += 1
        if len(self.changes) < MOST:
            self.changes.append(change)

    @property
    def detail(self) -> str:
        """Returns the changes as a text."""
        more = self.count - len(self.changes)
        return "; ".join([*self.changes, *([f"and {more} more"] if more else [])])


ASKED: ContextVar[RequestFacts | None] = ContextVar("asked", default=None)


def tell_person(owner: str, token: str = "") -> None:
    """Records who asks, if this is a request."""
    if (facts := ASKED.get()) is not None:
        facts.person, facts.token = owner, token or facts.token


def tell_change(change: str) -> None:
    """Records a change that was made for whoever asks, if this is a request."""
    if (facts := ASKED.get()) is not None:
        facts.note(change)
