"""Settings of networks and of what is asked of them: decoding, drawing texts, losses.

They stand apart from the code that they configure because that imports torch: a command line is composed, checked and,
where it is wrong, refused in a fraction of the time that torch takes to load.
"""

from dataclasses import dataclass
from typing import Literal

from model.errors import UserError
from model.ranges import Amount, Count, Finite, Part, Positive, Seed, Share, ShareAboveZero, Whole, check_ranges
from model.text.tokenizer import BOS, MASK, PAD, SEP, UNK

Side = Literal["source", "target"]
Precision = Literal["auto", "fp32", "bf16", "fp16"]  # auto: by model/precision.py, before anything is trained
EngineName = Literal["auto", "torch", "ctranslate2", "ctranslate2-int8"]
ENGINES = ("auto", "torch", "ctranslate2", "ctranslate2-int8")
ROWS = 1024  # hypotheses of a batch at most: each has a row of logits as wide as the vocabulary
LENGTH_STEP = 16  # source lengths are rounded up to a multiple of it before they set the longest translation


@dataclass
class DecodeConfig:
    """How translations are searched for. `beam=1` is greedy search."""

    beam: Count = 5
    length_penalty: Finite | Literal["auto"] = "auto"  # auto: chosen on the validation set, then kept in the bundle
    nbest: Count = 1  # hypotheses a sentence, at most `beam`
    patience: Positive = 1.0  # a sentence is done when beam x patience hypotheses have ended
    min_length: Whole = 1  # target tokens before the end of sentence may come
    max_ratio: Amount = 2.0  # longest translation = max_ratio x source tokens + max_extra, end of sentence included
    max_extra: Whole = 20
    too_long: Literal["error", "truncate"] = "truncate"  # a source beyond the network's positions
    allow_unknown: bool = False  # may <unk> be generated?
    batch_tokens: Count = 8192  # source tokens of a batch with its padding, times the beam
    consensus: Amount = 0.0  # weight of a hypothesis' likeness to all that were found, beside its score; 0: score alone
    repeats_in_word: Whole = 0  # how often the same subwords may stand in a row inside a word, such as 2; 0: any number

    def check(self) -> None:
        """Refuse values that cannot be, by name.

        Raises:
            UserError: a number out of its range.
        """
        check_ranges("decode", self)
        if self.nbest > self.candidates:
            raise UserError(f"decode.nbest: {self.nbest} is more than beam x patience finds ({self.candidates})")

    @property
    def candidates(self) -> int:
        """Hypotheses that must have ended before a sentence is done."""
        return max(1, round(self.beam * self.patience))

    @property
    def sentence_tokens(self) -> int:
        """Source tokens of a batch with its padding."""
        return max(1, self.batch_tokens // self.beam)

    @property
    def sentences(self) -> int:
        """The most sentences of a batch."""
        return max(1, ROWS // self.beam)

    @property
    def alpha(self) -> float:
        """The length penalty as a number; `auto` that nobody has settled yet means 1."""
        return 1.0 if self.length_penalty == "auto" else float(self.length_penalty)

    def forbidden(self) -> list[int]:
        """Target ids that are never generated."""
        return [PAD, BOS, MASK, SEP] + ([] if self.allow_unknown else [UNK])

    def longest(self, source_length: int, positions: int) -> int:
        """The most target tokens (end of sentence included) for a source of that many tokens.

        The source length is rounded up to a multiple of 16, so that neighbours in a batch share one limit and the
        answer for a sentence does not hang on its company.
        """
        rounded = -(-source_length // LENGTH_STEP) * LENGTH_STEP
        return max(1, min(int(self.max_ratio * rounded) + self.max_extra, positions))


@dataclass
class GenerateConfig:
    """How tokens are drawn."""

    temperature: Amount = 1.0  # 0: the likeliest token each time
    top_k: Whole = 0  # draw among the so many likeliest; 0: among all
    top_p: ShareAboveZero = 1.0  # draw among the fewest likeliest that have this share of the probability
    max_tokens: Count = 200
    lines: Whole = 1  # ends of a line until a text is over; 0: it goes on to max_tokens
    seed: Seed = 1
    samples: Count = 1  # texts a prompt

    def check(self) -> None:
        """Refuse values that cannot be, by name.

        Raises:
            UserError: a number out of its range.
        """
        check_ranges("generate", self)
        if self.temperature == 0.0 and self.samples > 1:
            raise UserError(
                f"generate.samples: {self.samples}, but there is one likeliest text; "
                f"choose a generate.temperature above 0"
            )


@dataclass
class LossConfig:
    """What is minimised. Smoothing spreads this share of the target's probability over the vocabulary."""

    label_smoothing: Part = 0.1
    rdrop: Amount = 0.0  # translation: each batch twice, and how strongly the two are held to each other; 0: once
    distillation: Share = 0.5  # translation: the part of what is learned that train.teachers say, where there are any
