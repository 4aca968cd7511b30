"""Tokenizers of every kind, trained on lines; `tokenizer_files.py` loads them again."""

import logging
from collections.abc import Iterable, Sequence
from itertools import islice
from random import Random

from dragoman.model.errors import UserError
from dragoman.model.text.letters import DOTLESS, case_language, check_segmenter
from dragoman.model.text.subword_training import train_subwords
from dragoman.model.text.tokenizer import SPECIAL, Tokenizer, TokenizerConfig, TokenizerPair
from dragoman.model.text.words import count_units, most_frequent

LEAST_COVERAGE = 0.98  # SentencePiece takes no less
logger = logging.getLogger(__name__)


def train_pair(
    config: TokenizerConfig,
    sources: Iterable[str],
    targets: Iterable[str],
    seed: int = 1,
    languages: tuple[str, str] = ("", ""),
    tags: Sequence[str] = (),
) -> TokenizerPair:
    """Trains on normalised lines. The same lines in the same order, config and seed give the same bytes.

    `languages` (codes; empty: unknown) determine the lower case of words. `tags` are pieces of the source's vocabulary,
    see `model/text/tags.py`.
    """
    check_config(config)
    first = draw_lines(sources, config.train_lines, seed)
    second = draw_lines(targets, config.train_lines, seed + 1)
    if config.joint:
        both = train(config, [*first, *second], _common_case(config, languages), tags)
        return TokenizerPair(both, both)
    return TokenizerPair(train(config, first, languages[0], tags), train(config, second, languages[1]))


def check_config(config: TokenizerConfig) -> None:
    """Refuse what no text could make good."""
    if config.type == "huggingface" and config.same_as is None:
        raise UserError("tokenizer.type=huggingface: is not trained; name the model that has it: tokenizer.same_as=RUN")
    if config.vocabulary <= len(SPECIAL):
        raise UserError(f"tokenizer.vocabulary={config.vocabulary}: the special ids alone need {len(SPECIAL)}")
    if config.type not in ("bpe", "unigram") and config.sentinels:
        key = f"tokenizer.sentinels={config.sentinels}"
        raise UserError(f"{key}: for tokenizer.type=bpe and unigram, not {config.type}")
    if config.vocabulary <= len(SPECIAL) + config.sentinels:
        raise UserError(f"tokenizer.sentinels={config.sentinels}: fill tokenizer.vocabulary={config.vocabulary} alone")
    if not LEAST_COVERAGE <= config.character_coverage <= 1.0:
        such = f"expected {LEAST_COVERAGE} to 1.0"
        raise UserError(f"tokenizer.character_coverage={config.character_coverage}: {such}")
    if config.type != "words" and (config.lowercase or not config.punctuation):
        key = "lowercase=true" if config.lowercase else "punctuation=false"
        raise UserError(f"tokenizer.{key}: for tokenizer.type=words only, not {config.type}")
    check_segmenter("icu" if config.segmenter == "icu" else "none", "tokenizer.segmenter=icu")


def train(config: TokenizerConfig, lines: list[str], language: str = "", tags: Sequence[str] = ()) -> Tokenizer:
    """One tokenizer of the config's type, trained on all `lines`."""
    if not any(line.strip() for line in lines):
        raise UserError("tokenizer: there is no text to train on; every line is empty or was filtered out")
    trained: Tokenizer
    if config.type in ("bpe", "unigram"):
        trained = train_subwords(config, lines, tags)
    else:
        trained = most_frequent(config, count_units(config, lines, language).items(), language)
    if trained.vocabulary < config.vocabulary and config.type in ("bpe", "unigram"):
        logger.warning(
            f"tokenizer.vocabulary={config.vocabulary}: the text has only {trained.vocabulary} pieces; "
            f"the vocabulary is {trained.vocabulary}"
        )
    return trained


def draw_lines(lines: Iterable[str], most: int, seed: int) -> list[str]:
    """At most `most` (0: all) of the non-empty lines, each equally likely, in their own order; memory holds no more.

    Reservoir sampling (Vitter 1985, Algorithm R); fewer lines than `most` are all kept.
    """
    draw = Random(seed).getrandbits
    numbered = enumerate(filter(str.strip, lines))
    kept = list(islice(numbered, most or None))
    for number, line in numbered:
        bits = (number + 1).bit_length()
        while (place := draw(bits)) > number:  # each place up to its own is equally likely
            pass
        if place < most:
            kept[place] = number, line
    return [line for _, line in sorted(kept)]


def _common_case(config: TokenizerConfig, languages: tuple[str, str]) -> str:
    """Returns the language whose lower case a joint vocabulary has; empty: Unicode's default."""
    first, second = (case_language(code) for code in languages)
    if first == second or {first, second} <= DOTLESS:
        return first
    if config.lowercase:
        logger.warning(
            f"tokenizer.lowercase=true, tokenizer.joint=true: {first or second} has a lower case of its own, and one "
            "vocabulary has one; its words are folded as English ones are (tokenizer.joint=false keeps both right)"
        )
    return ""
