"""`tokenizer.json` gives the ids of our own tokenizers, read by Hugging Face's library."""

import numpy as np
import pytest

from dragoman.model.bundles.tokenizer_json import tokenizer_json
from dragoman.model.errors import UserError
from dragoman.model.text.normalise import normalise
from dragoman.model.text.tokenizer import BOS, EOS, Kind, Tokenizer, TokenizerConfig
from dragoman.model.text.tokenizers import train

tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed (requirements-dev.lock)")

SUBWORDS: tuple[Kind, ...] = ("bpe", "unigram")
ODD = [
    "",
    " \u00a0",
    "a",
    "  Two  dogs\tsee\u00a0a cat. ",
    "Der Hu\u0308nd",
    "soft\u00adhyphen and \u200eleft\ufeff",
    "東京 😀😀 x😀y z",
    "aaaaaaaaaaaa rrrr tttt eeeeeee",
    '3.14, "quoted" (and) – dashes…',
    "▁▁ signs ▁ for ▁a",
    "a\nb\r\nc",
]


def made_up(seed: int, count: int) -> list[str]:
    """Lines of random words of a few letters, which share many pairs."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("aaaeeeinrstßäž.'"))
    words = ["".join(rng.choice(letters, size)) for size in rng.integers(1, 9, 400)]
    return [" ".join(rng.choice(words, size)) for size in rng.integers(1, 12, count)]


def trained(kind: Kind, byte_fallback: bool = False) -> Tokenizer:
    config = TokenizerConfig(name=kind, type=kind, vocabulary=500, byte_fallback=byte_fallback)
    return train(config, [*made_up(1, 800), *map(normalise, ODD)] if not byte_fallback else made_up(1, 800))


@pytest.mark.parametrize("byte_fallback", [False, True])
@pytest.mark.parametrize("kind", SUBWORDS)
def test_the_library_finds_the_same_ids(kind: Kind, byte_fallback: bool) -> None:
    ours = trained(kind, byte_fallback)
    theirs = tokenizers.Tokenizer.from_str(tokenizer_json(ours))
    lines = [*ODD, *made_up(1, 300), *made_up(2, 300)]
    expected = [[*row.tolist(), EOS] for row in ours.encode([normalise(line) for line in lines])]
    assert [found.ids for found in theirs.encode_batch(lines)] == expected
    assert theirs.get_vocab_size() == ours.vocabulary
    assert [theirs.decode(row) for row in expected[-20:]] == ours.decode(expected[-20:])


def test_special_ids_stand_where_they_are_asked_for() -> None:
    ours = trained("bpe")
    theirs = tokenizers.Tokenizer.from_str(tokenizer_json(ours, before=(BOS,), after=()))
    assert theirs.encode("a").ids == [BOS, *ours.encode(["a"])[0].tolist()]


def test_compatibility_forms_are_normalised_like_the_shards() -> None:
    ours = trained("unigram")
    theirs = tokenizers.Tokenizer.from_str(tokenizer_json(ours, "NFKC"))
    (expected,) = ours.encode([normalise("ﬁne ½", "NFKC")])
    assert theirs.encode("ﬁne ½").ids == [*expected.tolist(), EOS]


def test_rules_of_words_are_refused() -> None:
    with pytest.raises(UserError, match=r"tokenizer.type=words: .*train with tokenizer=bpe"):
        tokenizer_json(train(TokenizerConfig(name="words", type="words"), ["a b"]))
