"""`dragoman score`: the log-probability of given pairs, without a server; one line of output per pair.

A translation model scores pairs; a language model scores texts, which are pairs without a source.
"""

import contextlib
import itertools
import json
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, TextIO

from dragoman.conf import compose
from dragoman.model.bundles.directory import bundle_kind
from dragoman.model.bundles.language import load_text_bundle
from dragoman.model.bundles.translation import load_bundle
from dragoman.model.errors import UserError
from dragoman.model.inference.kinds import check_translates
from dragoman.model.inference.scoring import PairScore, Scorer, open_scorer
from dragoman.model.inference.text_scoring import TextScorer, open_text_scorer
from dragoman.model.languages import languages_of
from dragoman.model.ranges import check_ranges
from dragoman.model.settings import DecodeConfig, TooLong
from dragoman.services.commands.lines import batches, open_input, open_output, read_lines
from dragoman.services.models.source import find_model
from dragoman.services.settings import ScoreConfig

logger = logging.getLogger(__name__)
ENDED = object()  # marks the end of a file with fewer lines


class Pair(NamedTuple):
    """A pair as read; without texts if its line is malformed and such lines are skipped."""

    place: str  # file and line, for messages
    source: str  # empty if a text is scored by itself
    target: str
    error: str | None = None


@dataclass
class Totals:
    """The totals of a file."""

    of: str = "pairs"  # or texts
    pairs: int = 0
    tokens: int = 0
    unknown: int = 0
    truncated: int = 0
    failed: int = 0
    log_probability: float = 0.0

    def add(self, score: PairScore | str) -> None:
        if isinstance(score, str):
            self.failed += 1
            return
        self.pairs += 1
        self.tokens += score.tokens
        self.unknown += score.unknown
        self.truncated += score.truncated
        self.log_probability += score.log_probability

    def __str__(self) -> str:
        mean = self.log_probability / max(1, self.tokens)
        perplexity = math.exp(-mean) if mean > -700 else math.inf
        kind = "target tokens" if self.of == "pairs" else "tokens"
        return (
            f"{self.pairs:,} {self.of}, {self.tokens:,} {kind} ({self.unknown:,} unknown): log-probability "
            f"{self.log_probability:.2f}, a token {mean:.4f}, perplexity {perplexity:.3f}"
        )


def score(config: ScoreConfig) -> int:
    """Scores all pairs in order, one line of output each."""
    check_ranges("score", config)
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(open_output(config.output))
        scorer, search, languages = choose_scorer(config)
        read = read_texts if isinstance(scorer, TextScorer) else read_pairs
        pairs = read(config, languages, stack)
        totals = copy(scorer, pairs, out, config, search)
    logger.info("%s", totals)
    if totals.truncated:
        logger.warning("%d %s were cut to the model's positions", totals.truncated, totals.of)
    if totals.failed:
        logger.warning("%d lines have no score", totals.failed)
    return compose.OK


def choose_scorer(config: ScoreConfig) -> tuple[Scorer | TextScorer, DecodeConfig | None, tuple[str, ...]]:
    """Returns the scorer for the bundle's kind, the search whose tokens are left out (if requested), the languages."""
    directory, version = find_model(config, "translation", "language")
    if bundle_kind(directory) == "language":
        for key in ("source", "target", "searched"):
            if getattr(config, key):
                raise UserError(
                    f"score.{key}: {getattr(config, key)} is for translation models; "
                    f"{version.name or directory} holds a language model, which scores the texts of input"
                )
        texts = load_text_bundle(directory, "language")
        return open_text_scorer(texts, config.home.device), None, languages_of(texts.pair)
    check_translates(directory, version.name)
    bundle = load_bundle(directory)
    return open_scorer(bundle, config.home.device), bundle.decode if config.searched else None, bundle.languages


def copy(
    scorer: Scorer | TextScorer,
    pairs: Iterator[Pair],
    out: TextIO,
    config: ScoreConfig,
    search: DecodeConfig | None = None,
) -> Totals:
    """Scores and writes `config.lines` pairs at a time; returns the totals."""
    totals = Totals("texts" if isinstance(scorer, TextScorer) else "pairs")
    number = 0
    for chunk in batches(pairs, config.lines):
        for answer in score_pairs(scorer, chunk, config, search):
            out.write(format_score(number, answer, scorer, config))
            totals.add(answer)
            number += 1
        out.flush()
    return totals


def score_pairs(
    scorer: Scorer | TextScorer, pairs: Sequence[Pair], config: ScoreConfig, search: DecodeConfig | None = None
) -> list[PairScore | str]:
    """Returns one score per pair, or why there is none."""
    answers: list[PairScore | str] = [pair.error or "" for pair in pairs]
    rows = [row for row, pair in enumerate(pairs) if pair.error is None]
    policy: TooLong = "error" if config.too_long == "error" else "truncate"
    targets, places = [pairs[row].target for row in rows], [pairs[row].place for row in rows]
    if isinstance(scorer, TextScorer):
        scored = scorer.score(targets, batch_tokens=config.batch_tokens, too_long=policy, places=places)
    else:
        scored = scorer.score(
            [pairs[row].source for row in rows],
            targets,
            batch_tokens=config.batch_tokens,
            too_long=policy,
            search=search,
            places=places,
        )
    for row, pair_score in zip(rows, scored, strict=True):
        left_out = pair_score.truncated and config.too_long == "skip"
        answers[row] = "longer than the model's positions" if left_out else pair_score
    return answers


def format_score(number: int, score: PairScore | str, scorer: Scorer | TextScorer, config: ScoreConfig) -> str:
    """Returns a pair's line with its end. `number` counts from 0."""
    if isinstance(score, str):
        if config.format == "json":
            return json.dumps({"line": number, "error": score}, ensure_ascii=False) + "\n"
        return "\n"
    if config.format == "json":
        record: dict[str, object] = {
            "line": number,
            "log_probability": number_of(score.log_probability),
            "tokens": score.tokens,
            "mean": number_of(score.mean),
            "unknown": score.unknown,
            "truncated": score.truncated,
        }
        if config.tokens:
            named = zip(scorer.pieces(score), score.log_probabilities, strict=True)
            record["each"] = [{"piece": piece, "log_probability": number_of(value)} for piece, value in named]
        return json.dumps(record, ensure_ascii=False) + "\n"
    if not config.tokens:
        return f"{score.log_probability:.6f}\n"
    each = zip(scorer.pieces(score), score.log_probabilities, strict=True)
    return "\t".join([f"{score.log_probability:.6f}", *(f"{piece}={value:.4f}" for piece, value in each)]) + "\n"


def number_of(value: float) -> float | None:
    """Returns the value for JSON: null for minus infinity, a token that the search never generates."""
    return round(value, 6) if math.isfinite(value) else None


def read_texts(config: ScoreConfig, languages: tuple[str, ...], stack: contextlib.ExitStack) -> Iterator[Pair]:
    """Yields the texts of the file, one per line; `stack` closes it."""
    file, name = stack.enter_context(open_input(config.input, languages=lambda: languages))
    lines = enumerate(read_lines(file, name, config.on_error), 1)
    return (Pair(f"{name}, line {at}", "", line or "", None if line is not None else "not UTF-8") for at, line in lines)


def read_pairs(config: ScoreConfig, languages: tuple[str, ...], stack: contextlib.ExitStack) -> Iterator[Pair]:
    """Yields the pairs of one or two files; `stack` closes them."""
    if (config.source is None) != (config.target is None):
        lone, missing = ("source", "target") if config.target is None else ("target", "source")
        raise UserError(f"score.{lone}: {getattr(config, lone)} needs the other side too: set score.{missing}")
    if config.source is None or config.target is None:
        file, name = stack.enter_context(open_input(config.input, languages=lambda: languages, rows="tsv"))
        return pairs_of_lines(read_lines(file, name, config.on_error), name, config.on_error)
    if config.input is not None:
        raise UserError("input: a file of pairs, or score.source and score.target, not both")
    sides = []
    for key, path, language in zip(("source", "target"), (config.source, config.target), languages, strict=True):
        file, name = stack.enter_context(open_input(path, f"score.{key}", partial(tuple, (language,))))
        sides.append(read_lines(file, name, config.on_error))
    return pairs_of_files(sides[0], sides[1], config.source, config.target)


def pairs_of_lines(lines: Iterator[str | None], name: str, on_error: Literal["raise", "skip"]) -> Iterator[Pair]:
    """Yields one pair per line of source TAB target."""
    for number, line in enumerate(lines, 1):
        place = f"{name}, line {number}"
        if line is None:
            yield Pair(place, "", "", "not UTF-8")
        elif len(columns := line.split("\t")) == 2:
            yield Pair(place, *columns)
        elif on_error == "raise":
            raise UserError(
                f"{place}: {len(columns)} columns, not source TAB target ({line[:60]!r}). "
                f"on_error=skip leaves such lines empty"
            )
        else:
            yield Pair(place, "", "", "not source TAB target")


def pairs_of_files(
    sources: Iterator[str | None], targets: Iterator[str | None], source: str, target: str
) -> Iterator[Pair]:
    """Yields the pairs of both files' lines; `source` and `target` are the files' names."""
    for number, (first, second) in enumerate(itertools.zip_longest(sources, targets, fillvalue=ENDED), 1):
        if first is ENDED or second is ENDED:
            short, long = (source, target) if first is ENDED else (target, source)
            raise UserError(f"{short} has {number - 1} lines, {long} has more: a pair is two lines of one number")
        place = f"{source} and {target}, line {number}"
        if isinstance(first, str) and isinstance(second, str):
            yield Pair(place, first, second)
        else:
            yield Pair(place, "", "", "not UTF-8")
