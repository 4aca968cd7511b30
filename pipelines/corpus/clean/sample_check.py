"""Checks the first lines of the training files for mistakes that would show as a bad model an hour later.

| mistake | what is said |
| --- | --- |
| the sides are exchanged, or a side is in another language than `pair` says | refused |
| a column of labels stands where the texts are expected | refused |
| nearly every pair has two equal sides, or one that is empty | refused |
| some pairs have, a label has a single text, the corpus is small for its vocabulary | said |

The sample is the first lines of each file, so it takes as long for any size. `corpus.check=off` leaves it out.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from dragoman.model.errors import UserError
from dragoman.model.inputs.lines import parts_of
from dragoman.model.inputs.streams import Blocks
from dragoman.model.languages import base_language, language_name, languages_of, same_language
from dragoman.model.shards.manifest import has_manifest, read_manifest
from dragoman.pipelines.corpus.clean.identifier import identifier
from dragoman.pipelines.corpus.read.records import MalformedRowError, row_parser
from dragoman.pipelines.corpus.read.sources import Source
from dragoman.pipelines.corpus.settings import CorpusConfig
from dragoman.pipelines.corpus.sizes import SIZES, VOCABULARY, fitting

SAMPLE = 2_000  # lines of a file
FILES = 8  # of a corpus
TELLING = 20  # letters of a text whose language can be told
FEWEST, MOST = 40, 150  # texts of a side that tell its language
CLEAR, SOME = 0.8, 0.3  # shares of the sample
WORDS_A_PIECE = 10  # of the training text, both sides; with fewer a vocabulary is large for its corpus
NO_LANGUAGE = "zxx"  # a label of py3langid's: no text
PIECES_A_CHARACTER = 2  # at least, so that a writing of many characters leaves room for words
OFF = "corpus.check=off leaves this check out"
logger = logging.getLogger(__name__)
# Languages that py3langid confuses: one of these found for another is no sign of a mistake.
ALIKE = (
    {"no", "nb", "nn", "da", "sv"},
    {"hr", "sr", "bs", "sl"},
    {"id", "ms", "jv", "su"},
    {"cs", "sk"},
    {"es", "gl", "ca", "an", "oc", "pt", "ast"},
    {"ru", "uk", "be", "bg", "mk", "sr"},
    {"hi", "mr", "ne", "sa", "bho"},
    {"fa", "ur", "ps", "ar"},
    {"nl", "af", "fy", "li"},
)


def check_training_files(config: CorpusConfig, sources: Sequence[Source], pair: str, vocabulary: int = 0) -> list[str]:
    """Returns what is doubtful about the training files, a line each; empty with `corpus.check=off`.

    Args:
        vocabulary: pieces that the tokenizer is to learn; 0: as many as fit.
    """
    doubts: list[str] = []
    if config.check == "off":
        return doubts
    training, pairs, words = [source for source in sources if source.split == "train"], 0, 0
    for source in training[:FILES]:
        rows = sample(source)
        pairs, words = pairs + len(rows), words + sum(len(text.split()) for row in rows for text in row)
        if not rows:
            continue
        if config.format == "labelled":
            doubts += _check_labels(config, source, rows)
        else:
            doubts += _check_sides(source, rows, languages_of(pair), config.clean.copies)
    if pairs < SAMPLE and words < WORDS_A_PIECE * vocabulary:  # the sample is the whole corpus
        doubts.append(
            f"{pairs:,} records of {words:,} words are little for tokenizer.vocabulary={vocabulary}: most pieces would "
            f"be seen a few times; {max(100, words // WORDS_A_PIECE // 100 * 100)} fits"
        )
    return doubts


def sample(source: Source) -> list[tuple[str, ...]]:
    """Returns the first rows of a source, one text a side; malformed ones are left out."""
    sides = []
    for index, file in enumerate(source.files):
        (first, *_) = parts_of(file, source.view(index))  # of an archive: its first text
        with Blocks.from_blocks(first.blocks()) as lines:
            sides.append([line.decode("utf-8-sig", "replace").rstrip("\r\n") for line in islice(lines, SAMPLE)])
    if len(sides) > 1 or not source.columns:
        return list(zip(*sides, strict=False))
    parse = row_parser(source)
    rows: list[tuple[str, ...]] = []
    for line in sides[0]:
        try:
            rows.append(parse(line))
        except MalformedRowError:
            continue
    return rows


def vocabulary_of(sources: Sequence[Source], directory: Path) -> int:
    """Returns the vocabulary that fits the lines of the training files; that of the shards if the directory has any."""
    if has_manifest(directory):
        return int(read_manifest(directory).config["tokenizer"]["vocabulary"])
    training = [source for source in sources if source.split == "train"]
    letters = set(chain.from_iterable(text for source in training for row in sample(source) for text in row))
    lines = 0
    for block in chain.from_iterable(map(_blocks, training)):
        lines += block.count(b"\n")
        if lines >= SIZES["pairs"][-1]:
            break
    vocabulary = max(int(fitting(lines)[VOCABULARY]), PIECES_A_CHARACTER * len(letters))
    if lines:  # an empty file is refused later
        logger.info(f"{VOCABULARY}={vocabulary} fits {lines:,} pairs")
    return vocabulary


def _blocks(source: Source) -> Iterator[bytes]:
    for part in parts_of(source.files[0], source.view(0)):
        yield from part.blocks()


def _check_sides(source: Source, rows: Sequence[tuple[str, ...]], languages: Sequence[str], copies: bool) -> list[str]:
    """Returns what is doubtful about the texts of each side; `copies`: pairs with two equal sides are to go."""
    doubts = []
    where = " and ".join(map(str, source.files))
    if len(languages) == 2:
        for what, failing in (
            ("have two equal sides", [row for row in rows if row[0].strip() == row[1].strip() != ""]),
            ("have an empty side", [row for row in rows if bool(row[0].strip()) != bool(row[1].strip())]),
        ):
            if what.startswith("have two") and (not copies or same_language(*languages)):
                continue
            said = f"{where}: {len(failing):,} of the first {len(rows):,} pairs {what}"
            if len(failing) > CLEAR * len(rows) and len(rows) >= FEWEST:
                raise UserError(f"{said}, such as {failing[0]!r}: is this the right file? ({OFF})")
            if len(failing) > SOME * len(rows) and len(rows) >= FEWEST:
                doubts.append(f"{said}; cleaning drops them")
    heard = [_language([row[index] for row in rows], code) for index, code in enumerate(languages)]
    own = [base_language(code) for code in languages]
    if heard == own[::-1] and len(set(own)) == 2:
        names = [language_name(code) for code in own]
        raise UserError(f"{where}: the first side is {names[1]}, the second {names[0]}; {_turn(source, own)} ({OFF})")
    for index, (code, heard_code) in enumerate(zip(own, heard, strict=True)):
        if heard_code is None or heard_code == code:
            continue
        side = f"{where}: {('the first side', 'the second side')[index] if len(own) == 2 else 'the text'}"
        right = "-".join(heard_code if number == index else languages[number] for number in range(len(own)))
        if any({heard_code, code} <= group for group in ALIKE):
            doubts.append(
                f"{side} reads more like {language_name(heard_code)} than {language_name(code)}; pair={right} if it is"
            )
        else:
            raise UserError(
                f"{side} is {language_name(heard_code)}, and pair says {language_name(code)}; pair={right} ({OFF})"
            )
    return doubts


def _language(texts: Sequence[str], expected: str) -> str | None:
    """Returns the language of nearly all texts that are long enough to tell; None if it cannot be told."""
    model = identifier()
    if base_language(expected) not in set(map(base_language, model.labels)):
        return None
    telling = [text for text in texts if sum(map(str.isalpha, text)) >= TELLING]
    step = max(1, len(telling) // MOST)
    votes = Counter(base_language(model.classify(text)[0]) for text in telling[::step][:MOST])
    if votes.total() < FEWEST:
        return None
    language, most = votes.most_common(1)[0]
    return language if language != NO_LANGUAGE and most >= CLEAR * votes.total() else None


def _turn(source: Source, own: Sequence[str]) -> str:
    if source.format == "tsv":
        return f"corpus.columns=[target,source], or pair={own[1]}-{own[0]}"
    if source.format == "jsonl":
        return f"exchange corpus.fields.source and corpus.fields.target, or pair={own[1]}-{own[0]}"
    return f"exchange corpus.train.source and corpus.train.target, or pair={own[1]}-{own[0]}"


def _check_labels(config: CorpusConfig, source: Source, rows: Sequence[tuple[str, ...]]) -> list[str]:
    texts, labels = [row[0] for row in rows], [row[1] for row in rows]
    if config.labels != "classes" or len(rows) < FEWEST:
        return []
    counts, kinds = Counter(labels), len(set(texts))
    if len(counts) > CLEAR * len(rows) and kinds < SOME * len(rows):
        raise UserError(
            f"{source.name}: {len(counts):,} labels and {kinds:,} texts in {len(rows):,} rows: the columns are "
            f"exchanged; corpus.columns=[label,text] ({OFF})"
        )
    alone = [label for label, count in counts.items() if count == 1]
    if alone and len(alone) < SOME * len(counts) + 1 and len(rows) > 10 * len(counts):
        return [f"{len(alone)} of {len(counts)} labels have one text, such as {alone[0]!r}; is it a name of a column?"]
    return []
