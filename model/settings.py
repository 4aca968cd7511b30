"""Settings of decoding, sampling, losses and alignment maps.

They are apart from the code that they configure because that code imports torch. A command line can so be composed,
checked and refused in a fraction of the time that torch takes to load.
"""

import re
from dataclasses import dataclass
from typing import Literal

from dragoman.model.errors import UserError
from dragoman.model.ranges import (
    Amount,
    Count,
    Finite,
    Part,
    Positive,
    Seed,
    Share,
    ShareAboveZero,
    Whole,
    check_ranges,
)
from dragoman.model.text.tokenizer import BOS, MASK, PAD, SEP, UNK

Side = Literal["source", "target"]
TooLong = Literal["error", "truncate"]  # what is done with a text that exceeds the network's positions
Precision = Literal["auto", "fp32", "bf16", "fp16"]  # auto: model/precision.py decides before training
EngineName = Literal["auto", "torch", "ctranslate2", "ctranslate2-int8"]
ENGINES = ("auto", "torch", "ctranslate2", "ctranslate2-int8")
ROWS = 1024  # most hypotheses in a batch: each has a row of logits as wide as the vocabulary
HEAD = re.compile(r"l(\d+)(?:h(\d+))?")  # a layer of a decoder, or one of its heads
LENGTH_STEP = 16  # source lengths are rounded up to a multiple of it to set the maximum length


@dataclass
class DecodeConfig:
    """The search for translations. `beam=1` is greedy search."""

    beam: Count = 5
    length_penalty: Finite | Literal["auto"] = "auto"  # auto: chosen on the validation set, then kept in the bundle
    nbest: Count = 1  # hypotheses per sentence, at most `beam`
    patience: Positive = 1.0  # a sentence is finished when beam x patience hypotheses have ended
    min_length: Whole = 1  # target tokens before the end of sentence may come
    max_ratio: Amount = 2.0  # maximum length = max_ratio x source tokens + max_extra, with the end of sentence
    max_extra: Whole = 20
    too_long: TooLong = "truncate"  # of a source
    allow_unknown: bool = False  # allow <unk> in translations
    batch_tokens: Count = 8192  # source tokens of a batch with padding, times the beam
    repeats_in_word: Whole = 0  # most repetitions in a row of the same subwords in a word, such as 2; 0: any number
    same_length: bool = False  # batches hold sources of one length: no translation depends on its neighbours' padding

    def check(self) -> None:
        """Refuses invalid values by name."""
        check_ranges("decode", self)
        if self.nbest > self.candidates:
            raise UserError(f"decode.nbest: {self.nbest} is more than beam x patience finds ({self.candidates})")

    @property
    def candidates(self) -> int:
        """Returns the number of hypotheses that must end before a sentence is finished."""
        return max(1, round(self.beam * self.patience))

    @property
    def sentence_tokens(self) -> int:
        """Returns the most source tokens of a batch with padding."""
        return max(1, self.batch_tokens // self.beam)

    @property
    def sentences(self) -> int:
        """Returns the most sentences of a batch."""
        return max(1, ROWS // self.beam)

    @property
    def alpha(self) -> float:
        """Returns the length penalty as a number; an unresolved `auto` means 1."""
        return 1.0 if self.length_penalty == "auto" else float(self.length_penalty)

    def forbidden(self) -> list[int]:
        """Returns the target ids that are never generated."""
        return [PAD, BOS, MASK, SEP] + ([] if self.allow_unknown else [UNK])

    def longest(self, source_length: int, positions: int) -> int:
        """Returns the most target tokens (with the end of sentence) for a source of that many tokens.

        The source length is rounded up to a multiple of 16, so that neighbours in a batch share one limit and a
        sentence's translation does not depend on its batch.
        """
        rounded = -(-source_length // LENGTH_STEP) * LENGTH_STEP
        return max(1, min(int(self.max_ratio * rounded) + self.max_extra, positions))


@dataclass
class GenerateConfig:
    """The sampling of tokens."""

    temperature: Amount = 1.0  # 0: the likeliest token each time
    top_k: Whole = 0  # sample among this many likeliest tokens; 0: among all
    top_p: ShareAboveZero = 1.0  # sample among the fewest likeliest tokens with this share of the probability
    max_tokens: Count = 200
    lines: Whole = 1  # the text ends after this many lines; 0: it continues to max_tokens
    seed: Seed = 1
    samples: Count = 1  # texts per prompt

    def check(self) -> None:
        """Refuses invalid values by name."""
        check_ranges("generate", self)
        if self.temperature == 0.0 and self.samples > 1:
            raise UserError(
                f"generate.samples: {self.samples}, but there is one likeliest text; "
                f"choose a generate.temperature above 0"
            )


@dataclass
class LossConfig:
    """The loss. Smoothing spreads this share of the target's probability over the vocabulary."""

    label_smoothing: Part = 0.1


@dataclass
class AlignmentConfig:
    """Selects the attention to show, and its form."""

    head: str = "auto"  # auto, mean, l3 (a layer's mean), l3h2; counted from 0
    reading: Literal["auto", "output", "input"] = "auto"  # the row that belongs to a target token
    units: Literal["words", "tokens"] = "words"
    threshold: Share = 0.0  # also link weights of at least this value; 0: only the heaviest of each target word

    def check(self) -> None:
        """Refuses values that no network can accept."""
        check_ranges("alignment", self)
        if self.head not in ("auto", "mean") and not HEAD.fullmatch(self.head):
            raise UserError(f"alignment.head: {self.head!r} is not known. Choices: auto, mean, l0 (a layer), l0h1")
