"""One word's difference: found by an index, compared exactly, marked or dropped."""

import itertools
import random
from pathlib import Path

import pytest

from dragoman.pipelines.corpus.plan.near_pairs import near_lines, near_pairs
from dragoman.pipelines.corpus.plan.near_words import WordIndex, within_one_word, words_of
from dragoman.pipelines.corpus.plan.plan import make_plan
from dragoman.pipelines.corpus.settings import CorpusConfig
from tests.pipelines.corpus.planned import Pairs, cleaned_blocks, kept_pairs

HELD = "the old man sees a small house by the river"


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("The old man sees a small house, by the river!", True),
        ("the very old man sees a small house by the river", True),  # a word added
        ("the man sees a small house by the river", True),  # left out
        ("the old woman sees a small house by the river", True),  # another
        ("the old man sees a small hosue by the river", True),  # misspelt
        ("the old man sees small a house by the river", True),  # swapped
        ("the old man sees a smallhouse by the river", True),  # joined
        ("the old man sees a small house by the ri ver", True),  # cut in two
        ("the old woman sees a big house by the river", False),
        ("the man sees a small house by the old river", False),  # moved: two words' difference
        ("a man", False),
        ("the old man sees a small house by the river and goes home", True),  # joined, long
        ("We stay. The old man sees a small house by the river. He waits.", True),
    ],
)
def test_one_word_of_difference_is_near(text: str, near: bool) -> None:
    index = WordIndex()
    index.add("something else altogether here", 3)
    index.add(HELD, 7)
    assert index.near(text).keys() == ({7} if near else set())


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("The old man slept!", "leaked_words"),
        ("The very old man sleeps.", "leaked_words"),
        ("The odl man sleeps.", "leaked_letter"),
        ("The old man sleeps. We do not.", "leaked_joined"),
        ("You say: the old man sleeps. We do not.", None),
        ("The old man sleeps on a hard chair.", None),  # a phrase
        ("Fantastisch lang", "leaked_letter"),
        ("Fantastic lunch", None),
    ],
)
def test_a_pair_counts_under_the_rule_that_says_most(text: str, rule: str | None) -> None:
    index = WordIndex()
    index.add("The old man sleeps.", 1)
    index.add("Fantastish lang!", 2)
    assert next(iter(index.near(text).values()), None) == rule


def test_a_word_of_a_script_without_spaces_is_a_character() -> None:
    index = WordIndex()
    index.add("我今天早上去公园散步了", 1)
    assert index.near("我今天早上去公园跑步了") == {1: "leaked_letter"}
    assert index.near("我昨日早上去公园散步了") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't GO_home, 3 times!", ["dont", "go", "home", "3", "times"]),
        ("Tom去了 zoo", ["tom", "去", "了", "zoo"]),
        ("किला कला, Kölu\u0308 می\u200cخواهم", ["किला", "कला", "kölu\u0308", "می\u200cخواهم"]),  # vowel signs stay
    ],
)
def test_words_are_without_case_and_marks(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def edits(words: list[str]) -> set[tuple[str, ...]]:
    """All sentences of two kinds of words that one operation makes of one."""
    found = {tuple(words)}
    for place in range(len(words) + 1):
        found |= {(*words[:place], new, *words[place:]) for new in "ab"}
        if place < len(words):
            found.add((*words[:place], *words[place + 1 :]))
            found |= {(*words[:place], new, *words[place + 1 :]) for new in "ab"}
        if place + 1 < len(words):
            found.add((*words[:place], words[place + 1], words[place], *words[place + 2 :]))
    return found


def test_the_comparison_is_that_of_all_operations_tried_out() -> None:
    every = [list(words) for length in range(3, 6) for words in itertools.product("ab", repeat=length)]
    index = WordIndex()
    for number, words in enumerate(every):
        index.add(" ".join(words), number)
    for words in random.Random(3).sample(every, 20):
        reached = edits(words)
        near = {number for number, other in enumerate(every) if tuple(other) in reached}
        assert {number for number, other in enumerate(every) if within_one_word(words, other)} == near
        assert index.near(" ".join(words)).keys() == near


TEST: Pairs = [
    ("the old man sees a house", "der alte Mann sieht ein Haus"),
    ("where is my good friend", "wo ist er denn nun"),
]
TRAIN: Pairs = [
    ("the old man sees a horse", "ein ganz anderer Satz steht hier"),
    ("quite another sentence stands here", "der alte Mann sieht das Haus"),
    ("nobody waits for us. the old man sees a house.", "Heute steht hier nichts davon"),
    ("a dog runs over the street", "ein Hund läuft über die Straße"),
]


def test_pairs_one_word_from_a_held_out_one_are_marked_or_dropped(tmp_path: Path) -> None:
    splits = {"train": TRAIN, "test": TEST}
    found = {}
    for mode in ("none", "mark", "drop"):
        blocks, clean = cleaned_blocks(tmp_path / mode, splits)
        plan = make_plan(blocks, clean, tmp_path / mode, CorpusConfig(near_words=mode), 1, {})
        found[mode] = (
            kept_pairs(clean, plan, "train"),
            plan.dropped["train"],
            near_lines(plan.folder, plan.kept),
            near_pairs(plan.folder),
        )
        assert kept_pairs(clean, plan, "test") == TEST
    counts = {"leaked_letter": 1, "leaked_words": 1, "leaked_joined": 1}
    assert found["none"] == (TRAIN, {}, {}, {})
    assert found["mark"] == (TRAIN, {}, {"test": [0]}, counts)
    assert found["drop"] == (TRAIN[3:], counts, {"test": [0]}, counts)
