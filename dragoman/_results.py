"""The results that the functions return."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Shards:
    """A finished shard directory."""

    folder: Path
    corpus: str
    languages: tuple[str, ...]
    records: Mapping[str, int]  # split -> pairs, or texts
    dropped: Mapping[str, Mapping[str, int]]  # split -> rule -> records
    hash: str  # of the manifest: trainings on these shards link to it
    found: bool  # they existed already


@dataclass(frozen=True)
class Run:
    """A finished training."""

    name: str
    folder: Path
    bundle: Path  # the finished model, for `load`
    scores: Mapping[str, float]  # on the held-out set
    model: str | None  # its name in the registry; None: not registered
    version: str | None


@dataclass(frozen=True)
class Evaluation:
    """A model's scores."""

    scores: Mapping[str, float]  # "test_bleu", "test_chrf", ...; for word vectors those of each set
    report: str  # the same as text
    comparison: str = ""  # with `evaluate.against`, as text

    @property
    def bleu(self) -> float | None:
        """Returns BLEU of a translation model, 0 to 100."""
        return self._score("bleu")

    @property
    def chrf(self) -> float | None:
        """Returns chrF of a translation model, 0 to 100."""
        return self._score("chrf")

    def _score(self, name: str) -> float | None:
        return next((value for key, value in self.scores.items() if key.rpartition("_")[2] == name), None)


@dataclass(frozen=True)
class Promotion:
    """The result of a promotion."""

    accepted: bool  # True if the version is champion now
    model: str
    version: str | None  # the champion now; None: there is none
    message: str


@dataclass(frozen=True)
class Alternative:
    """One of several translations."""

    text: str
    score: float


@dataclass(frozen=True)
class Translation:
    """The translation of a text."""

    text: str
    score: float
    alternatives: tuple[Alternative, ...] = field(default=(), repr=False)  # the best first, `text` among them
    truncated: bool = False  # the text was longer than the model reads, and lost its end
    unknown: int = 0  # pieces of the text that the model's vocabulary lacks
    missing: tuple[str, ...] = ()  # the words or characters that they stand for
    loops: bool = False  # the translation repeats itself where its text does not


@dataclass(frozen=True)
class Neighbour:
    """A word and its similarity."""

    word: str
    similarity: float
