"""Counts the lines that were not translated completely, and warns once at the end."""

import logging
from dataclasses import dataclass

from model.inference.translator import Translation

logger = logging.getLogger(__name__)


@dataclass
class Losses:
    """Lines that were not translated completely."""

    failed: int = 0
    truncated: int = 0
    unknown: int = 0

    def add(self, line: str | None, answer: Translation) -> None:
        """Counts a line and its translation."""
        self.failed += bool(line is None or answer.error)
        self.truncated += answer.truncated
        self.unknown += answer.unknown > 0

    def warn(self, of: str = "", advice: str = "") -> None:
        """Warns about the losses: `of` names the text, `advice` says how to keep lines from being cut."""
        if self.failed:
            logger.warning("%s%d lines could not be translated and are empty", of, self.failed)
        if self.truncated:
            logger.warning(
                "%s%d lines were cut to the model's positions and lost their end%s", of, self.truncated, advice
            )
        if self.unknown:
            logger.warning(
                "%s%d lines have characters or words that the model's vocabulary has not got; they may be missing",
                of,
                self.unknown,
            )
