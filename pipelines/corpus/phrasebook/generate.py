"""The phrasebook corpus: distinct pairs, held-out combinations for validation and test, files written atomically."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from zlib import crc32

from dragoman.pipelines.corpus.phrasebook.sentences import Pair, sentence
from dragoman.pipelines.corpus.phrasebook.words import tokens

SHORTEST, LONGEST = 3, 40  # white-space words of either side
TEST_PAIRS, VALID_PAIRS = 2000, 1000  # of a corpus of 20,000 training pairs or more; a tenth and a twentieth below
TEST_SHARE, VALID_SHARE = 25, 15  # combinations held out, of 1000
SPARE = 1.25  # held-out candidates for each one kept, so that those with an unseen word can be left out
USUAL = 3  # combinations of a short sentence
SPLITS = ("train", "valid", "test")


@dataclass(frozen=True, slots=True)
class Line:
    """One pair as written: both sides and the Pharaoh alignment (empty unless asked for)."""

    english: str
    german: str
    alignment: str


def held_out(combination: str) -> str:
    """The split that a combination of lexemes belongs to. Fixed by its name: the same for every seed and size."""
    bucket = crc32(combination.encode()) % 1000
    if bucket < TEST_SHARE:
        return "test"
    return "valid" if bucket < TEST_SHARE + VALID_SHARE else "train"


def split_of(combinations: Iterable[str]) -> str | None:
    """train if no combination is held out; None if some are held out for validation and others for test."""
    found = {held_out(combination) for combination in combinations} - {"train"}
    if len(found) > 1:
        return None
    return found.pop() if found else "train"


def taken(pair: Pair) -> bool:
    """Whether a held-out pair is a candidate.

    A sentence of n combinations is n times as likely to contain a held-out one as a sentence of one; taking USUAL in
    n of those that have more gives the held-out splits nearly the lengths of training.
    """
    return crc32(pair.english.encode()) % max(1, len(pair.combinations)) < USUAL


def fits(pair: Pair) -> bool:
    """Length limits, on both sides."""
    return all(SHORTEST <= side.count(" ") + 1 <= LONGEST for side in (pair.english, pair.german))


def distinct_pairs(seed: int) -> Iterator[Pair]:
    """Endless pairs, no English and no German sentence twice. Depends on the seed alone."""
    rng = Random(seed)
    german_of: dict[str, str] = {}
    seen: set[str] = set()
    while True:
        pair = sentence(rng)
        if not fits(pair):
            continue
        known = german_of.get(pair.english)
        assert known is None or known == pair.german, (
            f"two translations of {pair.english!r}: {known!r}, {pair.german!r}"
        )
        if known is not None or pair.german in seen:
            continue
        german_of[pair.english] = pair.german
        seen.add(pair.german)
        yield pair


def pharaoh(pair: Pair) -> str:
    """`i-j` for each link, English token i and German token j, counted from 0 over `tokens()` of the line."""
    return " ".join(f"{i}-{j}" for i, j in pair.alignment)


def quotas(pairs: int) -> dict[str, int]:
    """How many pairs each split gets."""
    return {
        "train": pairs,
        "valid": min(VALID_PAIRS, max(1, pairs // 20)),
        "test": min(TEST_PAIRS, max(1, pairs // 10)),
    }


def generate(pairs: int, seed: int, alignments: bool = False) -> dict[str, list[Line]]:
    """The three splits. No source sentence, on either side, stands in two of them.

    A held-out pair contains a combination (verb and object, adjective and noun ...) that no training pair contains,
    while all of its words occur in training, as far as the corpus is large enough for that.
    """
    if pairs < 1:
        raise ValueError(f"pairs={pairs}: the phrasebook needs at least 1 training pair")
    wanted = quotas(pairs)
    collect = {split: count if split == "train" else int(count * SPARE) + 10 for split, count in wanted.items()}
    lines: dict[str, list[Line]] = {split: [] for split in SPLITS}
    unfilled = set(SPLITS)
    for pair in distinct_pairs(seed):
        split = split_of(pair.combinations)
        if split not in unfilled or (split != "train" and not taken(pair)):
            continue
        lines[split].append(Line(pair.english, pair.german, pharaoh(pair) if alignments else ""))
        if len(lines[split]) == collect[split]:
            unfilled.discard(split)
            if not unfilled:
                break
    known = {token for line in lines["train"] for side in (line.english, line.german) for token in tokens(side)}
    for split in ("valid", "test"):
        lines[split].sort(key=lambda line: unseen(line, known))  # stable: keeps the order of generation
        del lines[split][wanted[split] :]
    return lines


def unseen(line: Line, known: set[str]) -> int:
    """How many tokens of a pair do not occur in training."""
    return sum(token not in known for side in (line.english, line.german) for token in tokens(side))


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """A text file that is there whole or not at all."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_corpus(directory: Path, pairs: int, seed: int, alignments: bool = False) -> dict[str, tuple[Path, Path]]:
    """Write `{split}.en` and `{split}.de` (and `{split}.align`) of train, valid and test; return the paths.

    `pairs` counts training pairs. The same arguments give the same bytes on every machine.
    """
    directory.mkdir(parents=True, exist_ok=True)
    files: dict[str, tuple[Path, Path]] = {}
    for split, lines in generate(pairs, seed, alignments).items():
        english, german = directory / f"{split}.en", directory / f"{split}.de"
        write_lines(english, (line.english for line in lines))
        write_lines(german, (line.german for line in lines))
        if alignments:
            write_lines(directory / f"{split}.align", (line.alignment for line in lines))
        files[split] = (english, german)
    return files
