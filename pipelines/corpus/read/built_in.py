"""The corpora that the package ships: `everyday`, and `phrasebook`, whose answers are known.

`built_in/README.md` says where they come from. They are English and German; a sharding writes them as files of lines.
"""

import lzma
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from dragoman.model.errors import UserError
from dragoman.model.languages import base_language, split_pair
from dragoman.pipelines.corpus.read.sources import SPLITS, Source, Split, names_of, written_source
from dragoman.pipelines.corpus.settings import CorpusConfig

FOLDER = Path(__file__).resolve().parents[1] / "built_in"
BUILT_IN = ("everyday", "phrasebook")
LANGUAGES = ("en", "de")
HELD_OUT = {"valid": (1000, 20), "test": (2000, 10)}  # of the phrasebook: at most so many, one for so many of training
TOKEN = re.compile(r"o'clock|'s|\w+(?:-\w+)*|[^\w\s]")


class Pair(NamedTuple):
    """A pair of the phrasebook with what its grammar knew."""

    english: str
    german: str
    alignment: tuple[tuple[int, int], ...]  # (English, German) words, counted from 0 over `tokens`
    kind: str  # statement, yes-no-question, open-question or command
    parts_of_speech: tuple[str, ...]  # of the English words: the tags of Universal Dependencies


def tokens(line: str) -> list[str]:
    """Returns the units that alignments count: words, the possessive 's, and each punctuation mark."""
    return TOKEN.findall(line)


def is_built_in(config: CorpusConfig) -> bool:
    """Returns True if the corpus is one of the package's, or labelled without files: the phrasebook with labels."""
    files = any(names_of(name) for split in SPLITS for name in vars(getattr(config, split)).values())
    return config.format in BUILT_IN or (config.format == "labelled" and not files)


def check_built_in(config: CorpusConfig, pair: str) -> None:
    """Refuses settings that a built-in corpus does not support.

    Raises UserError: files, another language pair, or more pairs than there are.
    """
    names = [(f"corpus.{split}.{key}", name) for split in SPLITS for key, name in vars(getattr(config, split)).items()]
    for key, name in names:
        if names_of(name):
            raise UserError(
                f"{key}={name}: the built-in corpus reads no files; write corpus=tsv before it, or corpus=jsonl, moses "
                f"or text"
            )
    if config.format == "labelled":
        if base_language(pair) != LANGUAGES[0]:
            raise UserError(
                f"pair={pair}: the built-in labelled sentences are English; pair=en, or corpus.train.file=FILE"
            )
    elif {*map(base_language, split_pair(pair))} != set(LANGUAGES):
        raise UserError(
            f"pair={pair}: corpus={config.format} has English and German only; choices: en-de, de-en, or a corpus of "
            f"your own: corpus=tsv corpus.train.file=FILE"
        )
    most = len(everyday() if config.format == "everyday" else phrasebook()["train"])
    if config.pairs > most:
        raise UserError(
            f"corpus.pairs={config.pairs}: the built-in corpus has {most:,} training pairs; choices: 1 to {most}, or 0 "
            f"for all"
        )


def built_in_sources(config: CorpusConfig, pair: str, folder: Path) -> list[Source]:
    """Writes a built-in corpus as lines into `folder`; returns its files as a Moses corpus' sources."""
    folder.mkdir(parents=True, exist_ok=True)
    if config.format == "labelled":
        splits = {
            split: [_labelled(row, config.labels) for row in rows] for split, rows in phrasebook(config.pairs).items()
        }
        return [_write(split, rows, folder) for split, rows in splits.items()]
    turned = base_language(split_pair(pair)[0]) != LANGUAGES[0]
    pairs: dict[Split, list[tuple[str, str]]]
    if config.format == "everyday":
        pairs = {"train": everyday(config.pairs)}
    else:
        pairs = {split: [row[:2] for row in rows] for split, rows in phrasebook(config.pairs).items()}
    return [
        _write(split, [(german, english) if turned else (english, german) for english, german in rows], folder)
        for split, rows in pairs.items()
    ]


def everyday(pairs: int = 0) -> list[tuple[str, str]]:
    """Returns (English, German): all, or the first `pairs` in the order of a hash of the English sentence.

    So a part is a sample of short and long sentences, with all translations of its sentences but the last one's.
    """
    rows = [(english, german) for english, german in _rows("everyday")]
    return rows if not pairs else sorted(rows, key=lambda row: crc32(row[0].encode()))[:pairs]


def phrasebook(pairs: int = 0) -> dict[Split, list[Pair]]:
    """Returns the training, validation and test pairs: all, or the first `pairs` of training and a share held out.

    A held-out pair has a combination of words that no training pair has, and only words that training has.
    """
    splits = _phrasebook()
    if not pairs:
        return splits
    counts = {split: min(most, max(1, pairs // share)) for split, (most, share) in HELD_OUT.items()}
    return {split: rows[: counts.get(split, pairs)] for split, rows in splits.items()}


@cache
def _phrasebook() -> dict[Split, list[Pair]]:
    splits: dict[Split, list[Pair]] = {split: [] for split in SPLITS[:3]}
    for split, english, german, alignment, kind, tags in _rows("phrasebook"):
        links = (link.partition("-") for link in alignment.split())
        aligned = tuple((int(source), int(target)) for source, _, target in links)
        splits[split].append(Pair(english, german, aligned, kind, tuple(tags.split())))  # type: ignore[index]
    return splits


def _rows(name: str) -> Iterator[list[str]]:
    with lzma.open(FOLDER / f"{name}.tsv.xz", "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            yield line.rstrip("\n").split("\t")


def _labelled(row: Pair, task: str) -> tuple[str, str]:
    """Returns a sentence and its type, its words and their parts of speech, or the words of its translation."""
    if task == "tags":
        return " ".join(tokens(row.english)), " ".join(row.parts_of_speech)
    return row.english, row.kind if task == "classes" else repr(float(len(tokens(row.german))))


def _write(split: Split, rows: Iterable[tuple[str, str]], folder: Path) -> Source:
    files = (folder / f"{split}-0.source", folder / f"{split}-0.target")
    return written_source(f"{split}-0", split, files, "corpus.pairs", rows)
