"""Counts the lines that were not translated completely, and reports them once at the end or with an answer."""

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dragoman.model.inference.translator import Translation

logger = logging.getLogger(__name__)

MOST_SHOWN = 5  # unknown words in a message
MOST_COUNTED = 10_000  # different ones: a file in another script has no end of them
KINDS = ("failed", "truncated", "unknown", "loops", "loops_broken")


@dataclass
class Losses:
    """Lines, or other units of text, that were not translated completely."""

    unit: str = "line"
    failed: int = 0
    truncated: int = 0
    unknown: int = 0
    loops: int = 0
    loops_broken: int = 0
    missing: Counter[str] = field(default_factory=Counter)  # the words of `unknown` and in how many lines they are

    def add(self, line: str | None, answer: Translation) -> None:
        self.failed += bool(line is None or answer.error)
        self.truncated += answer.truncated
        self.unknown += answer.unknown > 0
        self.loops += answer.loops
        self.loops_broken += answer.loop_broken
        self.missing.update(word for word in answer.missing if word in self.missing or len(self.missing) < MOST_COUNTED)

    def counts(self) -> dict[str, int]:
        """Returns the numbers by kind, KINDS."""
        return {kind: int(getattr(self, kind)) for kind in KINDS}

    def record(self) -> dict[str, Any]:
        """Returns plain values for JSON: the kinds that occurred, the missing words, and the messages."""
        facts: dict[str, Any] = {kind: number for kind, number in self.counts().items() if number}
        if self.missing:
            facts["missing"] = [word for word, _ in self.missing.most_common()]
        return {**facts, "warnings": list(self.messages())} if facts else {}

    def messages(self, advice: str = "") -> Iterator[str]:
        """Yields a sentence for each kind of loss; `advice` says how to keep lines from being cut."""
        subject = f"{self.unit}s that"
        if self.failed:
            yield f"{subject} could not be translated and are empty: {self.failed:,}"
        if self.truncated:
            yield f"{subject} were cut to the model's positions and lost their end: {self.truncated:,}{advice}"
        if self.unknown:
            examples = ", ".join(repr(word) for word, _ in self.missing.most_common(MOST_SHOWN))
            more = ", ..." if len(self.missing) > MOST_SHOWN else ""
            yield (
                f"{subject} have characters or words that the model's vocabulary has not got: {self.unknown:,}"
                f"{f' ({examples}{more})' if examples else ''}; they may be missing"
            )
        if self.loops:
            yield f"{subject} have a translation that repeats itself: {self.loops:,}"
        if self.loops_broken:
            yield f"{subject} went round, where the loop was broken: {self.loops_broken:,}"

    def warn(self, advice: str = "") -> None:
        """Logs the messages."""
        for message in self.messages(advice):
            logger.warning(message)
