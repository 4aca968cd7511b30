"""Ten million words of real English for the word-vector benchmarks, from the corpora beside the repository.

wikitext-2, the English sides of wmt-news, the NLTK archives and the Gutenberg books without their headers: words of
a to z in lower case, cut into records of 1,000 and shuffled by seed 0. Where the corpora are missing, words are drawn
from Zipf's law: good for speed, meaningless for quality.
"""

import gzip
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.peers import ROOT
from bench.sample_text import words as made_up_words
from dragoman.model.text.tokenizer import SPECIAL_PIECES
from dragoman.model.word_vectors.learner import Text
from dragoman.model.word_vectors.vocabulary import Vocabulary

CORPORA = ROOT.parent / "shared" / "corpora"
RECORD = 1000  # words
MIN_COUNT = 5
ZIPF_WORDS = 50_000


@dataclass
class EnglishText:
    """The same text for both sides: encoded for ours, a file with a record a line for the peer."""

    text: Text
    vocabulary: Vocabulary
    path: Path
    real: bool


def english_text(path: Path, size: int, corpora: Path = CORPORA) -> EnglishText:
    """Write about `size` words to `path` and encode them; what is smaller than the whole is from fewer sources."""
    real = (corpora / "wikitext-2").is_dir()
    if real:
        records = _records(corpora, None if size >= 10_000_000 else size)
    else:
        print(f"{corpora} is missing: words drawn from Zipf's law, so no quality is measured")
        records = _zipf(size)
    order = np.random.default_rng(0).permutation(len(records))[: size // RECORD]
    chosen = [records[i] for i in order]
    path.write_text("".join(" ".join(record) + "\n" for record in chosen), encoding="ascii")
    counts = Counter(word for record in chosen for word in record)
    pieces = sorted(counts, key=lambda word: (-counts[word], word))
    ids = {word: number for number, word in enumerate(pieces, len(SPECIAL_PIECES))}
    vocabulary = Vocabulary.of(
        [*SPECIAL_PIECES, *pieces], np.array([0] * len(SPECIAL_PIECES) + [counts[word] for word in pieces]), MIN_COUNT
    )
    encoded = np.array([ids[word] for record in chosen for word in record], dtype=np.int64)
    offsets = np.arange(len(chosen) + 1, dtype=np.int64) * RECORD
    print(f"{len(encoded):,} words, {len(vocabulary):,} different ones of at least {MIN_COUNT} occurrences", flush=True)
    return EnglishText(Text(vocabulary.rows[encoded], offsets), vocabulary, path, real)


def _records(corpora: Path, enough: int | None) -> list[list[str]]:
    """All whole records of the sources, or the first `enough` words of them."""
    word, records, rest = re.compile("[a-z]+"), [], list[str]()
    for text in _sources(corpora):
        rest += word.findall(text.lower().replace("<unk>", " "))
        whole = len(rest) // RECORD * RECORD
        records += [rest[first : first + RECORD] for first in range(0, whole, RECORD)]
        rest = rest[whole:]
        if enough is not None and len(records) * RECORD >= enough:
            break
    return records


def _sources(corpora: Path) -> Iterator[str]:
    for path in [*sorted(corpora.glob("wikitext-2/*.gz")), *sorted(corpora.glob("wmt-news/*/*.eng.gz"))]:
        yield gzip.decompress(path.read_bytes()).decode("utf-8", errors="ignore")
    for path in sorted(corpora.glob("nltk/*.zip")):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith(".txt"):
                    yield archive.read(name).decode("latin1")
    for path in sorted(corpora.glob("gutenberg/en/*.gz")):
        book = gzip.decompress(path.read_bytes()).decode("utf-8", errors="ignore")
        begin, end = book.find("*** START"), book.rfind("*** END")  # what is outside of them is about the book
        begin = book.find("\n", begin) if begin >= 0 else 0
        yield book[begin : end if end > 0 else len(book)]


def _zipf(size: int) -> list[list[str]]:
    vocabulary = made_up_words(ZIPF_WORDS, 1)
    chance = 1.0 / np.arange(10, ZIPF_WORDS + 10)
    bounds = np.cumsum(chance / chance.sum())
    ranks = np.minimum(np.searchsorted(bounds, np.random.default_rng(1).random(size)), ZIPF_WORDS - 1)
    return [vocabulary[ranks[first : first + RECORD]].tolist() for first in range(0, size, RECORD)]


if __name__ == "__main__":  # python -m bench.english_text FILE WORDS
    english_text(Path(sys.argv[1]), int(sys.argv[2]))
