"""Chooses the settings that nobody chose by the number of pairs: from conf/sizes.yaml, which is read here alone.

What the user gives stays, a run that has begun keeps what it began with, and an experiment is a whole recipe.
"""

import logging
import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from dragoman.conf.groups import FOLDER
from dragoman.model.inputs.lines import View, parts_of
from dragoman.model.languages import is_single
from dragoman.model.runs.record import read_plans, read_record
from dragoman.model.shards.manifest import has_manifest, read_manifest
from dragoman.model.storage.places import local_folder
from dragoman.pipelines.corpus.clean.first_look import sample
from dragoman.pipelines.corpus.read.identity import UNSAID, look_up
from dragoman.pipelines.corpus.read.sources import Source
from dragoman.pipelines.corpus.sharded import find_given_keys

VOCABULARY, STEPS, WARMUP = "tokenizer.vocabulary", "train.max_steps", "train.optimizer.warmup_steps"
BY_SIZE = 0  # of the vocabulary, until the pairs are counted
PIECES_A_CHARACTER = 2  # at least, so that a writing of many characters leaves room for words
NETWORK = "transformer_tiny"
OF_NETWORK = {"train.optimizer.lr", "train.optimizer.schedule", "model.dropout"}  # chosen for that one
OF_LABELS = (STEPS, WARMUP, "train.evaluate_every", "train.checkpoint_every")  # what a head takes for its texts
TRANSLATING = {"transformer", "rnnsearch", "rnnenc", "prefixlm"}
logger = logging.getLogger(__name__)


@cache
def _table() -> dict[str, list[Any]]:
    table: dict[str, list[Any]] = yaml.safe_load((FOLDER / "sizes.yaml").read_text(encoding="utf-8"))
    return table


def fitting(pairs: int) -> dict[str, Any]:
    """Returns dotted key -> value for a corpus of so many pairs."""
    sizes = _table()["pairs"]
    pairs = min(max(pairs, sizes[0]), sizes[-1])
    low = min(bisect_right(sizes, pairs), len(sizes) - 1) - 1
    part = math.log(pairs / sizes[low]) / math.log(sizes[low + 1] / sizes[low])
    return {key: _between(row[low], row[low + 1], part) for key, row in _table().items() if key != "pairs"}


def _between(low: Any, high: Any, part: float) -> Any:
    """Returns the value at this part of the way, of numbers with two digits; of names the nearer."""
    if part in (0.0, 1.0) or low == high or isinstance(low, str):
        return low if part < 0.5 else high
    value = float(f"{low * (high / low) ** part:.2g}")
    return round(value) if isinstance(low, int) else value


def as_counted(values: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Returns the mark `BY_SIZE` for the vocabulary of a sharding, where it is to fit the pairs."""
    of_pairs = values["corpus"]["format"] not in ("text", "labelled") and not is_single(values["pair"])
    tokenizer = values["tokenizer"]
    learned = tokenizer["type"] in ("bpe", "unigram") and not tokenizer["same_as"]
    counts = of_pairs and learned and VOCABULARY not in find_given_keys(words, values)
    return {VOCABULARY: BY_SIZE} if counts and not _has_experiment(words) else {}


def vocabulary_of(sources: Sequence[Source], directory: Path) -> int:
    """Returns the vocabulary that fits the lines of the training files; that of the shards if the directory has any."""
    if has_manifest(directory):
        return int(read_manifest(directory).config["tokenizer"]["vocabulary"])
    training = [source for source in sources if source.split == "train"]
    letters = set(chain.from_iterable(text for source in training for row in sample(source) for text in row))
    lines = 0
    for block in chain.from_iterable(map(_blocks, training)):
        lines += block.count(b"\n")
        if lines >= _table()["pairs"][-1]:
            break
    vocabulary = max(int(fitting(lines)[VOCABULARY]), PIECES_A_CHARACTER * len(letters))
    logger.info(f"{VOCABULARY}={vocabulary} fits {lines:,} pairs")
    return vocabulary


def _blocks(source: Source) -> Iterator[bytes]:
    for part in parts_of(source.files[0], source.views[0] if source.views else View()):
        yield from part.blocks()


def as_fitting(values: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Returns dotted key -> value of a training's settings that nobody chose.

    Those of a run that has begun are its own. A translation network's fit its pairs, the steps of a head its texts;
    the warm-up of every network is at most a tenth of the steps.

    Args:
        values: the composed configuration, with what the shards define.
        words: the overrides of the command line.
    """
    shards, runs = (local_folder(values["paths"][key], values["paths"]["cache"]) for key in ("shards", "runs"))
    model, train, chosen = values["model"], values["train"], find_given_keys(words, values) | {VOCABULARY}
    if _has_experiment(words) or not has_manifest(shards):
        return {}
    run = Path(runs) / values["name"]
    manifest, record = read_manifest(shards), read_record(run)
    fit = fitting(manifest.splits["train"].records)
    if record is not None:
        settings = {key: look_up(record, key) for key in _table()}
        plans = read_plans(run)
        settings[STEPS] = plans[-1]["max_steps"] if plans else UNSAID
    else:
        translates = model.get("architecture") in TRANSLATING and values["loader"]["denoise"] == "none"
        fits = translates and manifest.kind == "parallel"
        labels = {key: fit[key] for key in OF_LABELS} if manifest.kind == "labelled" else {}
        settings = fit if fits else {WARMUP: train["optimizer"]["warmup_steps"], **labels}
        if STEPS in chosen:
            settings[WARMUP] = min(settings[WARMUP], max(1, train["max_steps"] // 10))
        if model["name"] != NETWORK or train["init_from"]:
            chosen |= OF_NETWORK
    return {key: value for key, value in settings.items() if key not in chosen and value is not UNSAID}


def _has_experiment(words: Sequence[str]) -> bool:
    return any(word.lstrip("+").startswith("experiment=") for word in words)
