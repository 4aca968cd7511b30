"""The section `corpus` of the configuration: its files, how to read them, and which records to keep."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from dragoman.model.ranges import Count, Part, Range, Whole
from dragoman.model.text.tokenizer import LabelTask

OnError = Literal["raise", "skip"]


@dataclass
class SplitFiles:
    """The files of one split: `source` and `target` for a Moses pair, `file` for TSV, JSON Lines and text.

    A path or a list of paths, relative to `corpus.root` if that is set. `{source}`, `{target}` and `{other}` in a name
    stand for the languages of `pair`, as `corpus.languages` writes them. Names of text files may be patterns, such as
    `en/*.txt.gz`.
    """

    source: str | list[str] | None = None
    target: str | list[str] | None = None
    file: str | list[str] | None = None


@dataclass
class CleanConfig:
    """The rules that a training pair must pass. 0 turns a limit off. Text that is too long is split into records."""

    form: Literal["NFC", "NFKC"] = "NFC"
    max_chars: Whole = 1000  # characters per side
    max_words: Whole = 200  # white-space words per side
    max_ratio: Annotated[float, Range(0)] = 4.0  # longer side : shorter side
    copies: bool = True  # drop pairs with equal sides
    duplicates: bool = True  # drop pairs that occurred before
    script: bool = False  # drop pairs with a side in another script than its language's
    language: bool = False  # drop pairs with a side that is clearly in another language


@dataclass
class CutConfig:
    """Fractions of source sentences to cut from the training files for held-out splits that no file gives.

    auto: some 2,000 sentences each, if a parallel corpus has only training files and neither is set, see `cutting`;
    otherwise none.
    """

    valid: Part | Literal["auto"] = "auto"
    test: Part | Literal["auto"] = "auto"
    gate: Part = 0.0  # a split only for deciding on promotions
    references: Literal["first", "all"] = "first"  # of a held-out source with several translations
    run: Count = 256  # text only: adjacent records that stay together in one split
    place: Literal["drawn", "end"] = "drawn"  # text only: runs drawn by the seed, or the last ones (test after valid)

    def share(self, split: str) -> float:
        """Returns the fraction of `split`; 0 while it is `auto`."""
        value: float | Literal["auto"] = getattr(self, split)
        return 0.0 if value == "auto" else value


@dataclass
class CorpusPart:
    """One corpus of a mix. What is null is as in the section `corpus`; a part with training files of its own takes no
    held-out files from there."""

    name: str
    pair: str | None = None
    tags: list[str] = field(default_factory=list)  # stand before each source sentence; the first names the target
    format: Literal["moses", "tsv", "jsonl"] | None = None
    root: str | None = None
    train: SplitFiles | None = None
    valid: SplitFiles | None = None
    test: SplitFiles | None = None
    gate: SplitFiles | None = None
    columns: list[str] | None = None
    fields: dict[str, str] | None = None
    languages: dict[str, str] | None = None


@dataclass
class CorpusConfig:
    """One corpus: a name, a format, its files by split, and the handling of bad lines."""

    name: str = "corpus"
    format: Literal["moses", "tsv", "jsonl", "webdataset", "everyday", "text", "labelled"] = "moses"
    root: str | None = None
    needs_root: bool = False  # the files are relative to a folder that the user must give
    train: SplitFiles = field(default_factory=SplitFiles)
    valid: SplitFiles = field(default_factory=SplitFiles)
    test: SplitFiles = field(default_factory=SplitFiles)
    gate: SplitFiles = field(default_factory=SplitFiles)
    languages: dict[str, str] = field(default_factory=dict)  # the files' names of languages: de -> deu
    columns: list[str] = field(default_factory=lambda: ["source", "target"])  # of a TSV, first column first
    labels: LabelTask = "classes"  # labelled: one class a text, or one tag a word
    rows: Literal["auto", "tsv", "jsonl", "conllu", "conll"] = (
        "auto"  # labelled: form of the files; auto: by their names
    )
    fields: dict[str, str] = field(
        default_factory=lambda: {"source": "{source}", "target": "{target}"}
    )  # of a JSON line
    pairs: Whole = 0  # of a built-in corpus: training pairs to take; 0: all
    header: bool = False  # tsv: the first line names the columns and is left out
    check: Literal["on", "off"] = "on"  # check the first lines before anything starts, see `clean/sample_check.py`
    encoding: str | list[str] = "utf-8"  # in a list, each line is read in the first that fits
    records: Literal["line", "paragraph"] = "line"  # text: the unit of a record; a blank line ends a paragraph
    blank: Literal["drop", "keep"] = "drop"  # text: drop blank lines, or keep them as records without a word
    between: list[str] = field(default_factory=list)  # text: beginnings of the lines before and after the part to keep
    on_error: OnError = "raise"  # undecodable text or a malformed row: stop, or skip and count
    # pairs: which training pairs are too similar to a held-out one, see `leaks`; auto: near, for labels source
    leaks: Literal["auto", "near", "source"] = "auto"
    clean: CleanConfig = field(default_factory=CleanConfig)
    cut: CutConfig = field(default_factory=CutConfig)
    parts: list[CorpusPart] = field(default_factory=list)  # the corpora of a mix, see `read/parts.py`
