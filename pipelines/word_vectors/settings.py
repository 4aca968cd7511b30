"""The section `vectors`: training, release and evaluation of word vectors."""

from dataclasses import dataclass, field
from typing import Literal

from dragoman.model.ranges import Amount, Count, Positive, Whole, check_ranges
from dragoman.model.schema import NO_SETTING


@dataclass
class EvaluateVectors:
    """The evaluation of word vectors. Files are relative to `root`; without a root only neighbours are shown.

    A set's word is looked up as written, else in lower case.
    """

    root: str | None = None
    similarity: list[str] = field(default_factory=list)  # pairs of words with people's similarity ratings
    analogies: list[str] = field(default_factory=list)  # questions a : b = c : ?
    restrict: Whole = 30_000  # analogies: questions and answers among this many most frequent words; 0: all
    words: list[str] = field(default_factory=list)  # show and draw these words' neighbours; empty: some of the sets'
    neighbours: Whole = field(default=5, metadata=NO_SETTING)  # shown per word
    pictures: bool = True  # projections, similarities, parallelograms, scores and loss


@dataclass
class VectorsConfig:
    """The training. A *segment* is a run of whole records; a *round* is one segment on each rank."""

    epochs: Count = 5
    side: Literal["source", "target"] | None = None  # language of parallel shards; null: shards of one language
    threads: Whole = 0  # per rank; 0: its share of the machine's cores
    segment_words: Count = 50_000  # per rank between two averages
    scale_lr: bool = True  # the learning rate times the number of ranks, at most max_lr
    max_lr: Positive = 0.1
    log_every: Count = 20  # rounds
    checkpoint_every: Whole = 0  # rounds; 0: only by time
    checkpoint_minutes: Amount = 2.0  # 0: only by rounds
    keep_checkpoints: Count = field(default=2, metadata=NO_SETTING)
    evaluate: EvaluateVectors = field(default_factory=EvaluateVectors)

    def check(self) -> None:
        """Refuses invalid values."""
        check_ranges("vectors", self)
