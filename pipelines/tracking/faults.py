"""Faults of meaning of two versions on the same lines, which `promote.checks` compares."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Faults:
    """The lines that fail one rule."""

    check: str
    candidate: int
    champion: int
    p_value: float  # of so many more of the candidate's by chance: the exact sign test of the lines that differ

    def worse(self, limit: float) -> bool:
        """Returns True if the candidate fails more lines, and chance explains it with at most that probability."""
        return self.candidate > self.champion and self.p_value <= limit

    def __str__(self) -> str:
        return f"{self.check} faults {self.candidate:,} against {self.champion:,}, p = {self.p_value:.3g}"
