"""The built-in corpus as sources; generated once, into the scratch folder."""

import os
import shutil
from pathlib import Path

from dragoman.model.errors import UserError
from dragoman.model.languages import base_language, split_pair
from dragoman.pipelines.corpus.phrasebook.generate import write_corpus
from dragoman.pipelines.corpus.read.sources import SPLITS, Source, names_of
from dragoman.pipelines.corpus.settings import CorpusConfig

LANGUAGES = ("en", "de")


def check_phrasebook(config: CorpusConfig, pair: str) -> None:
    """Refuses settings that the phrasebook does not support.

    Raises:
        UserError: files, another language pair, or an invalid number of pairs.
    """
    given = [(f"corpus.{split}.{key}", name) for split in SPLITS for key, name in vars(getattr(config, split)).items()]
    for key, name in given:
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
            f"pair={pair}: corpus=phrasebook has English and German only; choices: en-de, de-en, or a corpus of your "
            f"own: corpus=tsv corpus.train.file=FILE"
        )
    if config.pairs <= 0:
        raise UserError(f"corpus.pairs={config.pairs}: how many phrasebook pairs to generate; expected 1 or more")


def phrasebook_sources(config: CorpusConfig, pair: str, seed: int, scratch: Path) -> list[Source]:
    """Generates the phrasebook (unless that was done before) and returns its files as a Moses corpus' sources."""
    folder = scratch / "phrasebook"
    if not folder.is_dir():
        temporary = scratch / f"phrasebook.{os.getpid()}"
        for leftover in scratch.glob("phrasebook.*"):
            shutil.rmtree(leftover)
        temporary.mkdir()
        write_corpus(temporary, config.pairs, seed)
        temporary.rename(folder)
    order = [LANGUAGES.index(base_language(language)) for language in split_pair(pair)]
    sources = []
    for split in SPLITS[:3]:  # it has no gate split
        files = [next(folder.glob(f"{split}*.{language}")) for language in LANGUAGES]
        sources.append(
            Source(f"{split}-0", split, "moses", (files[order[0]], files[order[1]]), ("corpus.pairs", "corpus.pairs"))
        )
    return sources
