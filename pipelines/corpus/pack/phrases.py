"""Phrases: words that are adjacent more often than by chance become one word, joined by `_`.

Mikolov et al. 2013b, "Distributed Representations of Words and Phrases and their Compositionality", equation 6, times
the number of words N as in the authors' program, so that a threshold means the same for any corpus size:

    score(a b) = (count(a b) - min_count) * N / (count(a) * count(b))

Words are the tokenizer's. Two are adjacent if only a space is between them, so a phrase never spans a punctuation mark
or a record's end. Each pass joins pairs, left to right, so passes give phrases of 2, 4, ... words.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from dragoman.model.files import atomic_open
from dragoman.model.text import letters
from dragoman.model.text.words import WordRules
from dragoman.pipelines.corpus.clean.block import block_path, load_block, load_facts, save_block
from dragoman.pipelines.corpus.pack.counting import Entry, Group, read_run, write_run
from dragoman.pipelines.corpus.settings import PhrasesConfig

CACHED_STRINGS = 500_000  # strings between spaces whose outer words are cached


def count_pairs(clean: Path, plan: Path, rules: WordRules, folder: Path, group: Group) -> tuple[Path, Path]:
    """Counts the words and the adjacent pairs, as `a b`, in a group's training text, once; returns the runs of both."""
    words_run, pairs_run = (folder / f"{group.number:06d}.{name}" for name in ("words", "pairs"))
    if not words_run.exists():  # it is made last
        outer = OuterWords(rules)
        words, pairs = Counter[str](), Counter[str]()
        for texts in group.texts(clean, plan):
            words.update(rules.count(texts))
            strings: Counter[tuple[str, str]] = Counter()
            for text in texts:
                strings.update(pairwise(rules.fold_case(text).split()))
            for pair, number in strings.items():
                phrase = outer.phrase(*pair)
                if phrase:
                    pairs[phrase] += number
        write_run(pairs_run, sorted(pairs.items()))
        write_run(words_run, sorted(words.items()))
    return words_run, pairs_run


def write_phrases(path: Path, words: Path, pairs: Path, config: PhrasesConfig, number: int) -> int:
    """Chooses the phrases of pass `number` (from 0) from both merged runs, best first; returns their number.

    Holds the words and the phrases in memory, at most `config.most` of each.
    """
    threshold = config.threshold * config.fall**number
    total = sum(count for _, count in read_run(words))
    frequent = (entry for entry in read_run(words) if entry[1] >= config.min_count)
    counts = dict(heapq.nsmallest(config.most, frequent, key=lambda entry: (-entry[1], entry[0])))
    scored = _score_pairs(read_run(pairs), counts, total, config.min_count)
    enough = ((score, phrase) for score, phrase in scored if score > threshold)
    chosen = heapq.nsmallest(config.most, enough, key=lambda entry: (-entry[0], entry[1]))
    with atomic_open(path, durable=False) as file:
        file.write("".join(f"{phrase}\t{score:.6g}\n" for score, phrase in chosen).encode())
    return len(chosen)


def _score_pairs(pairs: Iterable[Entry], counts: dict[str, int], total: int, least: int) -> Iterator[tuple[float, str]]:
    for phrase, number in pairs:
        if number >= least:
            first, second = phrase.split(" ")
            if first in counts and second in counts:
                yield (number - least) * total / (counts[first] * counts[second]), phrase


@lru_cache(maxsize=1)
def load_phrases(path: Path) -> frozenset[str]:
    """Returns the phrases as `a b`."""
    with path.open(encoding="utf-8", newline="\n") as file:
        return frozenset(line.partition("\t")[0] for line in file)


def join_block(clean: Path, rules: WordRules, phrases: Path, folder: Path, number: int) -> int:
    """Writes a clean block with the phrases of `write_phrases` joined into `folder`, once; returns its number."""
    path = block_path(folder, number)
    if not path.exists():
        block = load_block(clean, number)
        joined = "\n".join(join_phrases(block.texts()[0], load_phrases(phrases), OuterWords(rules)))
        save_block(path, [joined], block.line, block.source_key, block.pair_key, load_facts(clean, number))
    return number


def join_phrases(texts: Iterable[str], phrases: frozenset[str], outer: "OuterWords") -> Iterator[str]:
    """Yields each text with `_` for the space in every phrase, left to right; a word is part of only one phrase."""
    for text in texts:
        strings = text.split(" ")
        folded = outer.rules.fold_case(text).split(" ")
        joined = [outer.phrase(before, after) in phrases for before, after in pairwise(folded)]
        if True not in joined:
            yield text
            continue
        parts, taken_before = [strings[0]], False
        for string, joins in zip(strings[1:], joined, strict=True):
            taken_before = joins and not taken_before
            parts += ("_" if taken_before else " ", string)
        yield "".join(parts)


class OuterWords:
    """The words at both ends of strings between spaces, which can form phrases with their neighbours."""

    def __init__(self, rules: WordRules) -> None:
        self.rules = rules
        self.of = lru_cache(CACHED_STRINGS)(self._outer)  # the first and the last word of a string

    def phrase(self, before: str, after: str) -> str:
        """Returns `a b` for two adjacent folded strings; empty if a punctuation mark is between them."""
        first, second = self.of(before)[1], self.of(after)[0]
        return f"{first} {second}" if first and second else ""

    def _outer(self, string: str) -> tuple[str, str]:
        """Returns the first and the last word; empty where a punctuation mark stands there."""
        if letters.is_plain_word(string):
            return string, string
        words = self.rules.split(string)
        if not words:
            return "", ""
        first, last = letters.starts_word(string[0]), letters.ends_word(string[-1])
        return words[0] if first else "", words[-1] if last else ""
