"""Words of a text, and tokens in them."""

import numpy as np
import pytest

from dragoman.model.alignment.spans import merge_tokens, shares, surfaces, token_spans, word_spans
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.model.text.tokenizers import train_pair

TEXT = "Don't go, the well-known café costs 1,234.50 €."


def words(text: str) -> list[str]:
    return [text[begin:end] for begin, end in word_spans(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TEXT, ["Don't", "go", ",", "the", "well-known", "café", "costs", "1,234.50", "€", "."]),
        ("", []),
        (" \t ", []),
        ("-x- a,b 3.", ["-", "x", "-", "a", ",", "b", "3", "."]),
        ("'tis dogs' (no)", ["'", "tis", "dogs", "'", "(", "no", ")"]),
        ("猫は黒い cat", ["猫", "は", "黒", "い", "cat"]),
        ("cafe\u0301 हिन्दी", ["cafe\u0301", "हिन्दी"]),
        ("ok 👍🏽!", ["ok", "👍", "🏽", "!"]),
    ],
)
def test_words_are_what_a_reader_sees(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words", "characters"])
def test_tokens_are_found_where_they_stand(kind: str) -> None:
    lines = [TEXT.replace("€", "E"), "the cafe goes well"] * 5
    config = TokenizerConfig(type=kind, vocabulary=60)  # type: ignore[arg-type]  # one of its literals
    tokenizer = train_pair(config, lines, lines).source
    ids = tokenizer.encode([TEXT])[0]
    spans = token_spans(surfaces(tokenizer, ids), TEXT)
    assert [begin for begin, _ in spans] == sorted(begin for begin, _ in spans)
    covered = {place for begin, end in spans for place in range(begin, end)}
    assert covered == {place for place, sign in enumerate(TEXT) if not sign.isspace()}
    for (begin, end), surface in zip(spans, surfaces(tokenizer, ids), strict=True):
        assert surface in (None, TEXT[begin:end])
    euro = TEXT.index("€")  # unknown to all of them
    assert [(begin, end) for begin, end in spans if begin <= euro < end] == [(euro, euro + 1)]


def test_unknown_tokens_get_a_word_each_or_share_what_there_is() -> None:
    assert token_spans(["a", None, None, "b"], "a xx, b") == [(0, 1), (2, 4), (4, 5), (6, 7)]
    assert token_spans([None, None, None], "€") == [(0, 1)] * 3  # the bytes of one character
    assert token_spans([None, "", None, None], "x yz") == [(0, 1), (2, 2), (2, 4), (2, 4)]
    assert token_spans([None, None], "") == [(0, 0), (0, 0)]
    assert token_spans(["x", "z"], "x y") == [(0, 1), (2, 3)]  # "z" does not stand there


def test_a_token_that_was_lower_cased_is_found() -> None:
    assert token_spans(["the", "dog"], "The DOG") == [(0, 3), (4, 7)]


def test_tokens_divide_themselves_among_words_by_characters() -> None:
    # "ab c" as the tokens "a", "b c" (across two words) and a blank at the end
    found = shares([(0, 1), (1, 4), (4, 4)], [(0, 2), (3, 4)])
    np.testing.assert_allclose(found, [[1, 0], [0.5, 0.5], [0, 1]])
    assert shares([(0, 0)], []).shape == (1, 0)


def test_weights_of_words_are_sums_of_source_and_means_of_target_tokens() -> None:
    source = np.array([[1, 0], [1, 0], [0, 1]], np.float32)  # two tokens are the first word
    target = np.array([[1, 0], [0, 1], [0, 1]], np.float32)
    weights = np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8], [0.5, 0.1, 0.4]], np.float32)
    np.testing.assert_allclose(merge_tokens(weights, source, target), [[0.5, 0.5], [0.4, 0.6]], rtol=1e-6)
    np.testing.assert_array_equal(merge_tokens(weights, source, target * 0), np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("written", "text"), [(["istanbul", "ılık"], "İstanbul ILIK"), (["οδος", "σας"], "ΟΔΟΣ, ΣΑΣ"), (["a", "i̇"], "A İ")]
)
def test_lower_cased_tokens_stand_where_their_capitals_are(written: list[str | None], text: str) -> None:
    found = [text[begin:end] for begin, end in token_spans(written, text)]
    assert found == text.replace(",", "").split()
