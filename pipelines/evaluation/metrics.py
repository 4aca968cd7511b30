"""Scores of translations: sacreBLEU's BLEU, chrF and TER with signatures.

Texts that are rewritten in their own language have ROUGE beside them.

BLEU has two scales, which must not be compared with each other:

- `bleu`: cased, detokenised text, tokenised by sacreBLEU (13a; zh, ja-mecab or characters without spaces),
- `bleu_moses`: lower-cased and tokenised by Moses' rules on both sides, scored unchanged (`tokenize=none`), as in the
  published tables of Multi30k. Moses has no rules for languages without spaces: None there.
"""

import importlib.metadata
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

import regex

from dragoman.model.errors import UserError
from dragoman.model.inference.bleu import BY_LANGUAGE, tokeniser
from dragoman.model.languages import base_language
from dragoman.model.text.letters import fold_case, words_of
from dragoman.pipelines.evaluation.held_out import pick_evenly

WORDS = (5, 10, 15, 20, 30, 40)  # upper ends of the buckets, in words of the reference; one more is open
CHARACTERS = (10, 20, 30, 40, 60, 80)  # the same for languages without spaces; a word is about two characters
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}_]+")
ROUGES = ("rouge1", "rouge2", "rougeL")
Unit = Literal["words", "characters"]
LABELS = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}
ASIAN = ("zh", "ja")  # languages that TER has rules for: each ideograph is a word


@dataclass
class Bucket:
    """The scores of sentences with references of similar length."""

    words: str  # "6-10"; characters for languages without spaces
    sentences: int
    bleu: float
    chrf: float
    length_ratio: float  # of hypotheses over references, in words or characters


@dataclass
class Scores:
    """All scores on one set, from 0 to 100. TER is better when lower and may exceed 100."""

    sentences: int
    bleu: float
    bleu_moses: float | None
    chrf: float
    ter: float
    brevity_penalty: float
    length_ratio: float
    lines: dict[str, str]  # metric -> sacreBLEU's own line, with its signature
    signatures: dict[str, str]
    unit: Unit = "words"  # of the buckets
    buckets: list[Bucket] = field(default_factory=list)
    rouge1: float | None = None  # ROUGE-1, -2 and -L, F measures: for texts rewritten in their own language
    rouge2: float | None = None
    rougeL: float | None = None  # noqa: N815  # the name that it has everywhere

    def metrics(self) -> dict[str, float]:
        """Returns the scores by name, those that the language has."""
        return {name: float(getattr(self, name)) for name in self.lines}

    def record(self) -> dict[str, Any]:
        """Returns plain values for JSON: the `scores` of a bundle."""
        ratios = {"brevity_penalty": self.brevity_penalty, "length_ratio": self.length_ratio}
        return {**self.metrics(), **ratios, "sentences": self.sentences, "signatures": self.signatures}


@dataclass
class Sample:
    """One sample sentence."""

    number: int  # line, from 1
    source: str
    reference: str
    hypothesis: str
    chrf: float


def score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    language: str = "en",
    tokenize: str = "auto",
    with_buckets: bool = True,
    with_rouge: bool = False,
) -> Scores:
    """Returns all scores of detokenised hypotheses, one reference each; `language` is the target's code.

    `with_rouge`: also ROUGE, which summaries and other rewritten texts are measured by.
    """
    check_counts(hypotheses, references)
    name = tokeniser(tokenize, language)
    language = base_language(language)
    plain = (list(hypotheses), [list(references)])
    metrics: dict[str, tuple[Any, tuple[list[str], list[list[str]]]]] = {"bleu": (scorer("bleu", name), plain)}
    if language not in BY_LANGUAGE:
        moses = (moses_lines(hypotheses, language), [moses_lines(references, language)])
        metrics["bleu_moses"] = (scorer("bleu", "none"), moses)
    metrics["chrf"] = (scorer("chrf"), plain)
    metrics["ter"] = (scorer("ter", language=language), plain)
    results = {metric: sacre.corpus_score(*texts) for metric, (sacre, texts) in metrics.items()}
    signatures = {metric: str(sacre.get_signature()) for metric, (sacre, _) in metrics.items()}
    if "bleu_moses" in signatures:
        signatures["bleu_moses"] += f"|pre:sacremoses.{language}.lc"
    bleu: Any = results["bleu"]
    figures = {metric: float(result.score) for metric, result in results.items()}
    unit: Unit = "characters" if language in BY_LANGUAGE else "words"
    lines = {metric: result.format(signature=signatures[metric]) for metric, result in results.items()}
    overlaps = rouge(hypotheses, references, language) if with_rouge else {}
    for metric, value in overlaps.items():
        signatures[metric] = rouge_signature(language)
        lines[metric] = f"ROUGE-{metric.removeprefix('rouge')}|{signatures[metric]} = {value:.2f}"
    return Scores(
        **overlaps,
        sentences=len(hypotheses),
        bleu=figures["bleu"],
        bleu_moses=figures.get("bleu_moses"),
        chrf=figures["chrf"],
        ter=figures["ter"],
        brevity_penalty=float(bleu.bp),
        length_ratio=float(bleu.sys_len / max(1, bleu.ref_len)),
        lines=lines,
        signatures=signatures,
        unit=unit,
        buckets=buckets(hypotheses, references, name, unit) if with_buckets else [],
    )


class _Words:
    """Words in lower case, for languages whose letters ROUGE's own tokeniser drops; without blanks by dictionaries."""

    def __init__(self, language: str) -> None:
        self.language = language

    def tokenize(self, text: str) -> list[str]:
        return words_of(" ".join(_WORD.findall(fold_case(text, self.language))))


def rouge(hypotheses: Sequence[str], references: Sequence[str], language: str) -> dict[str, float]:
    """Returns the mean F measures of ROUGE-1, -2 and -L (Lin 2004) from 0 to 100, by rouge-score, without stemming."""
    from rouge_score.rouge_scorer import RougeScorer

    overlap = RougeScorer(ROUGES, tokenizer=None if language == "en" else _Words(language))
    scores = [overlap.score(theirs, ours) for ours, theirs in zip(hypotheses, references, strict=True)]
    return {name: 100.0 * math.fsum(score[name].fmeasure for score in scores) / len(scores) for name in ROUGES}


def rouge_signature(language: str) -> str:
    """Returns how ROUGE was computed."""
    words = "own" if language == "en" else "unicode"
    return f"F|tok:{words}|stem:no|rouge-score:{importlib.metadata.version('rouge-score')}"


def quick_bleu(
    hypotheses: Sequence[str], references: Sequence[str], language: str = "en", tokenize: str = "auto"
) -> float:
    """Returns only `score`'s cased BLEU, by the same tokeniser, for validation during training and tuning."""
    return corpus_score(scorer("bleu", tokeniser(tokenize, language)), hypotheses, references)


def quick_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Returns only chrF, which compares int8 with float32."""
    return corpus_score(scorer("chrf"), hypotheses, references)


def corpus_score(metric: Any, hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Returns the score of the whole set by a metric of `scorer`."""
    return float(metric.corpus_score(list(hypotheses), [list(references)]).score)


def buckets(hypotheses: Sequence[str], references: Sequence[str], tokenize: str, unit: Unit) -> list[Bucket]:
    """Returns scores by the references' length in words or characters, without empty buckets."""
    counts = []
    for words, rows in length_groups(references, unit):
        ours, theirs = [hypotheses[row] for row in rows], [references[row] for row in rows]
        bleu, chrf = (corpus_score(metric, ours, theirs) for metric in (scorer("bleu", tokenize), scorer("chrf")))
        ratio = sum(size(text, unit) for text in ours) / max(1, sum(size(text, unit) for text in theirs))
        counts.append(Bucket(words, len(rows), bleu, chrf, ratio))
    return counts


def size(text: str, unit: Unit) -> int:
    """Returns the length of a text in words or characters."""
    return len(text) if unit == "characters" else len(words_of(text))


def length_groups(references: Sequence[str], unit: Unit) -> list[tuple[str, list[int]]]:
    """Returns (range of lengths, rows) of the references by length, the shortest first, without empty groups."""
    groups = []
    sizes = [max(1, size(text, unit)) for text in references]
    for low, high in pairwise([0, *(CHARACTERS if unit == "characters" else WORDS), math.inf]):
        rows = [row for row, length in enumerate(sizes) if low < length <= high]
        if rows:
            groups.append((f"{int(low) + 1}-{int(high)}" if high < math.inf else f"{int(low) + 1}+", rows))
    return groups


def sample_table(
    sources: Sequence[str], references: Sequence[str], hypotheses: Sequence[str], count: int
) -> list[Sample]:
    """Picks `count` sentences evenly from the worst to the best by sentence chrF; deterministic."""
    metric = scorer("chrf")
    marks = [metric.sentence_score(ours, [theirs]).score for ours, theirs in zip(hypotheses, references, strict=True)]
    picked = pick_evenly(sorted(range(len(marks)), key=lambda row: (marks[row], row)), count)
    return [Sample(row + 1, sources[row], references[row], hypotheses[row], float(marks[row])) for row in picked]


def moses_lines(texts: Sequence[str], language: str) -> list[str]:
    """Returns the texts lower-cased and tokenised as Moses does, tokens joined by spaces."""
    tokenize = _moses(language)
    return [" ".join(tokenize(fold_case(text, language), escape=False)) for text in texts]


@lru_cache
def _moses(language: str) -> Any:
    from sacremoses import MosesTokenizer

    return MosesTokenizer(lang=language).tokenize


def scorer(metric: str, tokenize: str = "", language: str = "", **options: Any) -> Any:
    """Returns a metric of sacreBLEU; `tokenize` is BLEU's tokeniser, `language` that of TER's rules.

    Silences sacreBLEU's log: its progress, and advice about its own command's options.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    logging.getLogger("sacrebleu").setLevel(logging.ERROR)
    if metric == "bleu":
        assert tokenize, "BLEU's own choice, 13a, makes one word of a Chinese sentence"
        return BLEU(tokenize=tokenize, **options)
    asian = base_language(language) in ASIAN
    return CHRF(**options) if metric == "chrf" else TER(normalized=asian, asian_support=asian, **options)


def check_counts(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Raises UserError if there is nothing to score or the counts differ."""
    if len(hypotheses) != len(references):
        raise UserError(f"scores: {len(hypotheses)} hypotheses for {len(references)} references")
    if not references:
        raise UserError("scores: no sentences to score")
