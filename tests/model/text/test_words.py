"""Words as a vocabulary: what a word is, counting, and encoding that equals the plain definition."""

import random
from collections import Counter

import pytest

from dragoman.model.errors import UserError
from dragoman.model.text.tokenizer import SPECIAL_PIECES, UNK, TokenizerConfig
from dragoman.model.text.tokenizers import train_pair
from dragoman.model.text.words import WordRules, WordTokenizer, most_frequent, rules_of

VOCABULARY = TokenizerConfig(
    name="vocabulary", type="words", vocabulary=1000, min_count=1, lowercase=True, punctuation=False, train_lines=0
)


def _texts(count: int, seed: int) -> list[str]:
    """Random strings of letters, marks and spaces, some in other scripts, some empty."""
    rng = random.Random(seed)
    letters = "abcAB_-'’.,!(\"3é猫犬กำาकया\u0301ßİΣ\u200b🏴\ufe0f" + " " * 6
    return ["".join(rng.choices(letters, k=rng.randint(0, 40))).strip() for _ in range(count)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The king's men, (all) of them -- ran.", ["the", "king's", "men", "all", "of", "them", "ran"]),
        ("_so_ new_york __ _", ["so", "new_york"]),
        ("U.S. and 3.14!", ["u.s", "and", "3.14"]),
        ("...", []),
    ],
)
def test_words_without_marks_in_lower_case(text: str, words: list[str]) -> None:
    assert rules_of(VOCABULARY).split(text.lower()) == words


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("punctuation", [True, False])
def test_encoding_and_counting_equal_the_plain_definition(
    lowercase: bool, punctuation: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.model.text.words.BLOCK_TEXTS", 7)
    monkeypatch.setattr("dragoman.model.text.words.CACHED_STRINGS", 20)
    rules, texts = WordRules(lowercase, punctuation), _texts(600, 1)
    counts = Counter(word for text in texts for word in rules.split(rules.fold_case(text)))
    assert rules.count(texts) == counts
    tokenizer = WordTokenizer([*SPECIAL_PIECES, *sorted(counts)[::2]], rules)
    plain = [[tokenizer.table.get(word, UNK) for word in tokenizer.split(text)] for text in texts]
    assert [row.tolist() for row in tokenizer.encode(texts)] == plain
    assert tokenizer.encode([]) == []


def test_a_text_with_a_nul_takes_the_plain_way() -> None:
    tokenizer = WordTokenizer([*SPECIAL_PIECES, "a", "b"])
    assert [row.tolist() for row in tokenizer.encode(["a b", "a\0b", "b"])] == [[6, 7], [6, UNK, 7], [7]]


def test_the_rules_are_in_the_file_and_old_files_are_refused() -> None:
    tokenizer = train_pair(VOCABULARY, ["The cat, the Dog."], []).source
    assert tokenizer.pieces(range(6, 9)) == ["the", "cat", "dog"]
    again = WordTokenizer.deserialise(tokenizer.serialise(), "file")
    assert again.rules == WordRules(lowercase=True, punctuation=False)
    assert again.encode(["THE dog!"])[0].tolist() == [6, 8]
    old = b'{"format_version":1,"type":"words","pieces":["<pad>","<unk>","<s>","</s>","<mask>","<sep>","The"]}\n'
    with pytest.raises(UserError, match="words=None: made by another version; shard again"):
        WordTokenizer.deserialise(old, "file")


def test_the_most_frequent_come_first_and_ties_in_order() -> None:
    counts = {"b": 3, "a": 3, "c": 9, "<s>": 50, "rare": 1}
    config = TokenizerConfig(type="words", vocabulary=9, min_count=2)
    assert most_frequent(config, counts.items()).written[6:] == ["c", "a", "b"]
    with pytest.raises(UserError, match=r"tokenizer.min_count=10: nothing in the text is that frequent"):
        most_frequent(TokenizerConfig(type="words", min_count=10), {"a": 3}.items())


def test_rules_for_words_are_refused_elsewhere() -> None:
    with pytest.raises(UserError, match=r"tokenizer.lowercase=true: for tokenizer.type=words only, not bpe"):
        train_pair(TokenizerConfig(lowercase=True), ["text"], ["text"])
