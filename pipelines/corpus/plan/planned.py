"""A cleaned corpus of pairs, with the decision for each of them."""

from dataclasses import dataclass
from pathlib import Path

from dragoman.pipelines.corpus.clean.judging import JudgedPart
from dragoman.pipelines.corpus.clean.misalignment import Misaligned
from dragoman.pipelines.corpus.plan.plan import Plan
from dragoman.pipelines.corpus.read.staging import Block


@dataclass(frozen=True)
class CleanedCorpus:
    """The cleaned pairs of a corpus, and what the plan says of them."""

    blocks: list[Block]
    clean: Path  # the folder of clean blocks
    judged: list[JudgedPart]  # the corpus, or each part of a mix, with its rules
    runs: dict[str, list[Misaligned]]  # source name -> misaligned runs
    plan: Plan
