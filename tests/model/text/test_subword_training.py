"""Training of subwords: the model that the library makes of the lines, to the byte, whatever way it was given them."""

import io

import numpy as np
import pytest
import sentencepiece

from dragoman.model.text.subword_training import LONGEST, train_subwords
from dragoman.model.text.tokenizer import SPECIAL_PIECES, Kind, TokenizerConfig
from dragoman.model.text.tokenizers import draw_lines


def made_up(count: int) -> list[str]:
    """Lines of words of few letters in three scripts, some with blanks too many, and what the library has signs for."""
    rng = np.random.default_rng(7)
    letters = np.array(list("aaaeeinrstßж日語、.'"))
    words = ["".join(rng.choice(letters, size)) for size in rng.integers(1, 9, 400)]
    words += ["▁", "a▁b", "<mask>", "</s>", "<unk>", "⁇", "\u00a0", "\u0301", "👩\u200d🚒", "4\u2585"]
    lines = [" ".join(rng.choice(words, size)) for size in rng.integers(0, 12, count)]
    return [*lines, "  two  blanks ", "", " ", "é" * (LONGEST // 2), "ü" * (LONGEST // 2 + 1)]


def by_the_library(config: TokenizerConfig, lines: list[str]) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type=config.type,
        vocab_size=config.vocabulary,
        hard_vocab_limit=False,
        character_coverage=config.character_coverage,
        byte_fallback=config.byte_fallback,
        normalization_rule_name="identity",
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        control_symbols=list(SPECIAL_PIECES[4:6]),
        max_sentence_length=LONGEST,
        num_threads=4,
        minloglevel=3,
    )
    return model.getvalue()


@pytest.mark.parametrize(
    ("kind", "vocabulary", "coverage", "byte_fallback", "tab"),
    [
        ("bpe", 300, 1.0, False, False),
        ("bpe", 300, 0.99, True, False),
        ("bpe", 300, 1.0, False, True),
        ("unigram", 120, 0.99, True, True),  # is given the lines as they are; long ones take seconds
    ],
)
def test_a_model_is_that_of_the_lines_to_the_byte(
    kind: Kind, vocabulary: int, coverage: float, byte_fallback: bool, tab: bool
) -> None:
    vocabulary += 256 * byte_fallback
    config = TokenizerConfig(type=kind, vocabulary=vocabulary, character_coverage=coverage, byte_fallback=byte_fallback)
    lines = made_up(600)[: None if kind == "bpe" else -2] + ["tab\ttabtab tab"] * 50 * tab
    trained = train_subwords(config, lines)
    assert trained.vocabulary == vocabulary
    assert trained.serialise() == by_the_library(config, lines)


def test_drawn_lines_are_the_same_for_ever() -> None:
    """Other lines would make another tokenizer of the same corpus."""
    drawn = draw_lines((str(number) for number in range(1000)), 8, seed=3)
    assert drawn == ["121", "172", "287", "331", "362", "580", "811", "892"]
