"""The corpus that the package ships: English and German everyday sentences, which a sharding writes as lines.

`built_in/README.md` says where they come from.
"""

import lzma
from pathlib import Path
from zlib import crc32

from dragoman.model.errors import UserError
from dragoman.model.languages import base_language, split_pair
from dragoman.pipelines.corpus.read.file_names import SPLITS, names_of
from dragoman.pipelines.corpus.read.sources import Source, written_source
from dragoman.pipelines.corpus.settings import CorpusConfig

FOLDER = Path(__file__).resolve().parents[1] / "built_in"
BUILT_IN = "everyday"  # the format
LANGUAGES = ("en", "de")


def check_built_in(config: CorpusConfig, pair: str) -> None:
    """Refuses settings that the built-in corpus does not support."""
    names = [(f"corpus.{split}.{key}", name) for split in SPLITS for key, name in vars(getattr(config, split)).items()]
    for key, name in names:
        if names_of(name):
            raise UserError(
                f"{key}={name}: the built-in corpus reads no files; write corpus=tsv before it, or corpus=jsonl, moses "
                f"or text"
            )
    if {*map(base_language, split_pair(pair))} != set(LANGUAGES):
        raise UserError(
            f"pair={pair}: corpus={config.format} has English and German only; choices: en-de, de-en, or a corpus of "
            f"your own: corpus=tsv corpus.train.file=FILE"
        )
    most = len(everyday())
    if config.pairs > most:
        raise UserError(
            f"corpus.pairs={config.pairs}: the built-in corpus has {most:,} training pairs; choices: 1 to {most}, or 0 "
            f"for all"
        )


def built_in_sources(config: CorpusConfig, pair: str, folder: Path) -> list[Source]:
    """Writes the built-in corpus as lines into `folder`; returns its files as a Moses corpus' sources."""
    folder.mkdir(parents=True, exist_ok=True)
    turned = base_language(split_pair(pair)[0]) != LANGUAGES[0]
    rows = [(german, english) if turned else (english, german) for english, german in everyday(config.pairs)]
    files = (folder / "train-0.source", folder / "train-0.target")
    return [written_source("train-0", "train", files, "corpus.pairs", rows)]


def everyday(pairs: int = 0) -> list[tuple[str, str]]:
    """Returns (English, German): all, or the first `pairs` in the order of a hash of the English sentence.

    So a part is a sample of short and long sentences, with all translations of its sentences but the last one's.
    """
    with lzma.open(FOLDER / "everyday.tsv.xz", "rt", encoding="utf-8", newline="\n") as lines:
        rows = [(english, german) for english, _, german in (line.rstrip("\n").partition("\t") for line in lines)]
    return rows if not pairs else sorted(rows, key=lambda row: crc32(row[0].encode()))[:pairs]
