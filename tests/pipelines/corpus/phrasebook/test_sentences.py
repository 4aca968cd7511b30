"""Properties of random sentences: alignment, punctuation, agreement between the sides."""

import re
from random import Random

import pytest

from dragoman.pipelines.corpus.phrasebook.sentences import Pair, sentence
from dragoman.pipelines.corpus.phrasebook.words import tokens

TWO_WAY_MISTAKES = re.compile(r"\b(in dem|an dem|von dem|zu dem|zu der|in das|an das)\b")


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    rng = Random(11)
    return [sentence(rng) for _ in range(4000)]


def test_words_are_the_tokens_of_the_lines(pairs: list[Pair]) -> None:
    for pair in pairs:
        assert [word.text.lower() for word in pair.source] == [token.lower() for token in tokens(pair.english)]
        assert [word.text.lower() for word in pair.target] == [token.lower() for token in tokens(pair.german)]


def test_every_token_but_a_comma_is_aligned(pairs: list[Pair]) -> None:
    for pair in pairs:
        english, german = tokens(pair.english), tokens(pair.german)
        links = pair.alignment
        assert all(0 <= i < len(english) and 0 <= j < len(german) for i, j in links)
        sources, targets = {i for i, _ in links}, {j for _, j in links}
        assert {english[i] for i in range(len(english)) if i not in sources} <= {","}, pair
        assert {german[j] for j in range(len(german)) if j not in targets} <= {","}, pair


def test_sentence_case_and_final_mark(pairs: list[Pair]) -> None:
    for pair in pairs:
        for line in (pair.english, pair.german):
            assert line[0].isupper()
            assert line[-1] in ".?!"
            assert line == " ".join(line.split())
            assert not re.search(r" [,.?!]|,[.?!,]", line), line
        assert pair.english[-1] == pair.german[-1]


def test_german_subordinate_clauses_stand_behind_commas(pairs: list[Pair]) -> None:
    words = ("weil", "dass", "obwohl", "bevor", "während", "wenn", "als", "bis", "ob", "um", "ohne")
    opener = re.compile(r"(?<![,]) (weil|dass|obwohl|bevor|ob|ohne)\b")
    for pair in pairs:
        found = opener.search(pair.german)
        assert found is None or re.search(rf"(und|aber) {found[1]}", pair.german), pair.german
    assert all(any(f" {word} " in pair.german for pair in pairs) for word in words)


def test_articles_contract_except_before_a_relative_clause(pairs: list[Pair]) -> None:
    for pair in pairs:
        for found in TWO_WAY_MISTAKES.finditer(pair.german):
            assert "," in pair.german[found.end() :] or "whom" in pair.english, pair.german


def test_subject_and_verb_agree(pairs: list[Pair]) -> None:
    wrong = re.compile(
        r"\bich (ist|hat|sind|haben|wird|werden|können|müssen)\b|\b(er|es) (sind|haben|werden|bin|können)\b"
        r"|\bwir (ist|hat|wird|bin|kann|muss)\b|\bI (is|has|does)\b"
        r"|\b(he|she|it) (are|have|do)\b|\b(we|they) (is|has)\b",
        re.IGNORECASE,
    )
    for pair in pairs:
        assert not wrong.search(pair.english), pair.english
        assert not wrong.search(pair.german), pair.german


def test_english_article_follows_the_sound_of_the_next_word(pairs: list[Pair]) -> None:
    wrong = re.compile(r"\b[Aa] (?!uni)[aeiou]|\b[Aa]n (?![aeiou])|\b[Aa]n uni")
    for pair in pairs:
        assert not wrong.search(pair.english), pair.english
