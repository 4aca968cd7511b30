"""`corpus=webdataset`: converts tars of other tools, with one text or pair per sample, to lines.

A side is the member of its language (`.en`) or place (`.src`, `.tgt`; a text: `.txt`), or a field of `.json`.
"""

import contextlib
import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from dragoman.model.errors import UserError
from dragoman.model.files import atomic_open
from dragoman.model.inputs.json_rows import parse_row, text_at
from dragoman.model.languages import is_single, split_pair
from dragoman.model.shards.samples import member_names, read_samples
from dragoman.pipelines.corpus.read.file_names import SPLITS, as_corpus_writes, fill_pattern
from dragoman.pipelines.corpus.read.sources import local_file, names_of_one
from dragoman.pipelines.corpus.settings import CorpusConfig, SplitFiles

logger = logging.getLogger(__name__)
SIDES = (("src", "source"), ("tgt", "target"))
TEXTS = ("txt", "text")
SHOWN = 5  # broken samples to name


def as_lines(config: CorpusConfig, pair: str, folder: Path) -> CorpusConfig:
    """Returns the corpus with its tars' samples as JSON Lines (text: lines) in `folder`, one input file per tar."""
    text = "-" not in pair
    folder.mkdir(parents=True, exist_ok=True)
    local: dict[str, Any] = {}
    for split in SPLITS:
        made = []
        for number, name in enumerate(names_of_one(config, split, "a sample has both sides")):
            path = local_file(config, pair, name, f"corpus.{split}.file")
            output, count = folder / f"{split}-{number}-{path.name}.{'txt' if text else 'jsonl'}", 0
            with atomic_open(output, durable=False) as file:
                for count, line in enumerate(_lines(config, pair, path), 1):  # noqa: B007  # the last is used
                    file.write(line.encode() + b"\n")
            if count:
                made.append(str(output))
            else:
                _explain_none(path, pair)
        local[split] = SplitFiles(file=made)
    fields = {"source": "source", "target": "target"}
    return replace(config, format="text" if text else "jsonl", root=None, fields=fields, **local)


def _explain_none(path: Path, pair: str) -> None:
    """Warns of an empty tar; raises UserError for one whose members are no samples of this pair."""
    if not (names := member_names(path, SHOWN)):
        logger.warning(f"{path}: holds no members, and counts nothing")
        return
    sides = " and ".join(f".{language}" for language in pair.split("-"))
    raise UserError(
        f"{path}: no sample has {sides}; its members are called {', '.join(names)} (a side is the member of its "
        f"language, KEY.en or KEY.en.txt, of its place, .src and .tgt, or a field of .json)"
    )


def _lines(config: CorpusConfig, pair: str, path: Path) -> Iterator[str]:
    languages = (pair,) if is_single(pair) else split_pair(pair)
    names = [as_corpus_writes(config, language) for language in languages]
    others = [TEXTS] if len(languages) == 1 else list(SIDES)
    fields = [fill_pattern(config, pair, config.fields.get(side, side)) for side in ("source", "target")][: len(names)]
    extensions = {"json", *(name.lower() for name in names), *(other[0] for other in others)}
    broken = []
    for key, members in read_samples(path, extensions):
        try:
            record = parse_row(members.get("json", b"{}"))
            sides = []
            for name, (extension, side), field in zip(names, others, fields, strict=True):
                sides.append(_side(members, record, (name.lower(), extension), (field, name, side)))
        except (ValueError, KeyError) as problem:
            reason = f"no {problem.args[0]}" if isinstance(problem, KeyError) else str(problem)
            broken.append(f"{key} ({reason})")
            if config.on_error == "raise":
                raise UserError(
                    f"{path}: sample {key}: {reason}; corpus.on_error=skip leaves such samples out"
                ) from None
            continue
        yield (
            sides[0]
            if len(sides) == 1
            else json.dumps(dict(zip(("source", "target"), sides, strict=True)), ensure_ascii=False)
        )
    if broken:
        more = f" and {len(broken) - SHOWN:,} more" if len(broken) > SHOWN else ""
        logger.warning(f"{path}: left out: {', '.join(broken[:SHOWN])}{more}")


def _side(members: dict[str, bytes], record: object, extensions: tuple[str, ...], fields: tuple[str, ...]) -> str:
    """Returns one side of a sample, without white space around it.

    Raises KeyError: the side is missing; names the expected members and fields. Raises ValueError: it is not UTF-8.
    """
    for extension in extensions:
        if extension in members:
            return members[extension].decode("utf-8").strip()
    for field in fields:
        with contextlib.suppress(TypeError):  # no text: try another field
            text = text_at(record, field.split("."))
            if text is not None:
                return text.encode("utf-8", "ignore").decode().strip()  # JSON can hold half an emoji, UTF-8 cannot
    raise KeyError(
        f"{', '.join(f'.{extension}' for extension in extensions)} and no field {', '.join(dict.fromkeys(fields))}"
    )
