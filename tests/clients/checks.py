"""One question to a client, and its answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

State = Literal["ok", "failed", "not installed"]


@dataclass(frozen=True)
class Server:
    """The server that is asked, and what it is asked to translate."""

    url: str  # without a slash at its end
    key: str
    source: str  # languages
    target: str
    text: str
    expected: Sequence[str]  # its translations, as the server itself gives them: one of each version that may answer
    models: Sequence[str]  # the names that /v1/models lists
    vectors: str = ""  # the name of a model that makes vectors of texts; empty: there is none
    documents: bool = False  # it translates documents

    def record(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Outcome:
    """A line of the table."""

    client: str
    version: str
    asked: str
    state: State
    answer: str  # or the error, or how to install the client


Ask = Callable[[Server], object]


@dataclass(frozen=True)
class Client:
    """A client of one registry, and its questions by what they ask for.

    A question of `translations` must be answered with the server's own translation; one of `documents`, too, where the
    server translates documents; of `others` with anything true.
    """

    name: str
    translations: Mapping[str, Ask]
    others: Mapping[str, Ask]
    documents: Mapping[str, Ask] = field(default_factory=dict)


def judge(client: str, version: str, asked: str, answer: object, expected: Sequence[str] | None) -> Outcome:
    """Returns the line for an answer; `expected` has the translations that it may be, if it must be one."""
    shown = str(answer)
    if expected is not None and shown not in expected:
        own = " or ".join(map(repr, expected))
        return Outcome(client, version, asked, "failed", f"{shown!r}, but the server itself answers {own}")
    if not answer:
        return Outcome(client, version, asked, "failed", f"an empty answer: {answer!r}")
    return Outcome(client, version, asked, "ok", shown)


def explain(problem: BaseException) -> str:
    """Returns an error on one line."""
    return " ".join(f"{type(problem).__name__}: {problem}".split())[:300]
