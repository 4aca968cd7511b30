"""Segmentations drawn while training: the same text, other pieces, repeatable."""

import numpy as np
import pytest

from dragoman.model.text.subword_regularization import WAYS, SubwordSampler
from dragoman.model.text.subwords import BpeTokenizer, SubwordTokenizer
from dragoman.model.text.tokenizer import EOS, UNK, TokenizerConfig
from dragoman.model.text.tokenizers import train_pair
from tests.model.text.sampling import sample

WHO, DOES = ("Anna", "My brother", "Nobody"), ("sees", "ignores")
WHAT, WHERE = ("the red house", "two houses", "a mousetrap"), ("here", "somewhere", "in 3.14")
LINES = [f"{who} {does} {what} ({where})." for who in WHO for does in DOES for what in WHAT for where in WHERE]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request: pytest.FixtureRequest) -> SubwordTokenizer:
    found = train_pair(TokenizerConfig(type=request.param, vocabulary=120), LINES, LINES).source
    assert isinstance(found, SubwordTokenizer)
    return found


def encoded(tokenizer: SubwordTokenizer, lines: list[str]) -> list[np.ndarray]:
    return [np.append(row, np.uint16(EOS)) for row in tokenizer.encode(lines)]


def test_the_text_stays_and_the_pieces_change(tokenizer: SubwordTokenizer) -> None:
    rows = encoded(tokenizer, LINES)
    drawn = SubwordSampler(tokenizer, 0.2, 1).resample(rows, np.random.Philox(key=1))
    assert tokenizer.decode(drawn) == LINES
    assert all(row[-1] == EOS and row.dtype == np.uint16 for row in drawn)
    assert sum(not np.array_equal(a, b) for a, b in zip(rows, drawn, strict=True)) > len(rows) / 2


def test_what_is_drawn_depends_on_seed_and_generator_only(tokenizer: SubwordTokenizer) -> None:
    rows = encoded(tokenizer, LINES)
    used = SubwordSampler(tokenizer, 0.2, 1)
    used.resample(rows[::-1], np.random.Philox(key=9))
    first, again, other, seeded = (
        [row.tolist() for row in sampler.resample(rows, np.random.Philox(key=key))]
        for sampler, key in (
            (used, 1),
            (SubwordSampler(tokenizer, 0.2, 1), 1),
            (used, 2),
            (SubwordSampler(tokenizer, 0.2, 2), 1),
        )
    )
    assert first == again and first != other and first != seeded


def test_words_that_are_not_all_known_stay_as_they_are(tokenizer: SubwordTokenizer) -> None:
    rows = encoded(tokenizer, ["日本 日本", "", "house日"])
    for key in range(5):
        drawn = SubwordSampler(tokenizer, 0.5, 1).resample(rows, np.random.Philox(key=key))
        assert [row.tolist() for row in drawn] == [row.tolist() for row in rows]
    assert UNK in rows[0]


def test_ways_follow_the_tokenizers_own_sampling(tokenizer: SubwordTokenizer) -> None:
    """The mean number of pieces is that of `Tokenizer.sample`, which draws without end."""
    text = "somewhere ignores mousetrap brother Nobody houses"
    row = encoded(tokenizer, [text])
    sampler = SubwordSampler(tokenizer, 0.3, 1)
    short = np.mean([len(sampler.resample(row, np.random.Philox(key=i))[0]) - 1 for i in range(300)])
    full = np.mean([len(sample(tokenizer, text, np.random.default_rng(i), 0.3)) for i in range(300)])
    assert short == pytest.approx(full, rel=0.15)
    assert all(len(ways) == WAYS for ways in sampler._ways.values())


def test_without_dropout_nothing_changes() -> None:
    tokenizer = train_pair(TokenizerConfig(vocabulary=120), LINES, LINES).source
    assert isinstance(tokenizer, BpeTokenizer)
    rows = encoded(tokenizer, LINES)
    drawn = SubwordSampler(tokenizer, 0.0, 1).resample(rows, np.random.Philox(key=1))
    assert [row.tolist() for row in drawn] == [row.tolist() for row in rows]
