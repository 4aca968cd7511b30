"""A kind of model in one file: a table that translates each token by itself, with three rows in the three tables.

Of every source token it keeps the target token with the largest Dice coefficient, counted over the training pairs.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors.numpy import load_file, save_file

from dragoman.model.bundles.directory import WEIGHTS, Bundle, new_bundle, read_record
from dragoman.model.inference.kinds import Kind
from dragoman.model.inference.translator import Translation
from dragoman.model.networks.architectures import model_config
from dragoman.model.networks.network import Architecture
from dragoman.model.settings import DecodeConfig
from dragoman.model.shards.manifest import manifest_hash, read_manifest
from dragoman.model.shards.reader import ShardReader
from dragoman.model.text.tokenizer import SPECIAL, TokenizerPair
from dragoman.model.text.tokenizer_files import load_pair
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.base import Evaluation
from dragoman.pipelines.evaluation.held_out import gate_split, held_out
from dragoman.pipelines.evaluation.metrics import quick_bleu
from dragoman.pipelines.evaluation.significance import compare_translations
from dragoman.pipelines.tasks.base import Task, Training
from dragoman.pipelines.tasks.identity import check_shards
from dragoman.pipelines.tracking.promotion import Comparison
from dragoman.pipelines.tracking.registry import Registry, Version


@dataclass
class UnigramConfig:
    architecture: Literal["unigram"] = "unigram"
    name: str = "unigram"
    least: int = 1  # pairs in which two tokens must meet


@dataclass(kw_only=True)
class UnigramBundle(Bundle):
    tokenizers: TokenizerPair
    table: Any  # (source vocabulary,) target ids
    decode = DecodeConfig(beam=1)

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(self.pair.split("-"))

    def translate(self, lines: Sequence[str], _decode: Any = None, on_error: str = "raise") -> list[Translation]:
        found = [self.table[ids].tolist() for ids in self.tokenizers.source.encode(list(lines))]
        return [Translation(text, 0.0) for text in self.tokenizers.target.decode(found)]


def load(directory: Path) -> UnigramBundle:
    record, common = read_record(directory, "unigram", ("vocabulary",))
    table, pair = load_file(directory / WEIGHTS)["table"], load_pair(directory, record["tokenizer"])
    return UnigramBundle(**common, tokenizers=pair, table=table)


def fingerprint(config: Config) -> dict[str, Any]:
    return {"shards": manifest_hash(config.shard_dir), "model": asdict(model_config(config.model))}


def save_bundle(config: Config, directory: Path, tracked: Any) -> UnigramBundle:
    settings, record = model_config(config.model), read_manifest(config.shard_dir).tokenizer
    left, right, both = Counter[int](), Counter[int](), Counter[tuple[int, int]]()
    for chunk in ShardReader(config.shard_dir, "train"):
        for source, target in chunk.rows():
            ours, theirs = set(source.tolist()), set(target.tolist())
            left.update(ours), right.update(theirs), both.update((a, b) for a in ours for b in theirs)
    tokenizers = load_pair(config.shard_dir, record)
    best = {a: (0.0, a) for a in range(tokenizers.source.vocabulary)}
    for (a, b), met in both.items():
        if met >= settings.least and b >= len(SPECIAL):
            best[a] = max(best[a], (2 * met / (left[a] + right[b]), b))
    table = np.array([best[a][1] for a in sorted(best)], np.int64)
    what = {"kind": "unigram", "architecture": "unigram", "model": asdict(settings), "vocabulary": len(table)}
    run = {"name": config.name, "id": tracked.run_id}
    facts = {"pair": config.pair, "made_from": fingerprint(config), "run": run}
    with new_bundle(directory, {**what, "tokenizer": tokenizers.describe()}, facts) as work:
        save_file({"table": table}, work / WEIGHTS)
        tokenizers.save(work)
    return load(directory)


class UnigramEvaluation(Evaluation):
    """BLEU on a split."""

    split = "test"

    def __init__(self, bleu: float) -> None:
        self.bleu = bleu

    def metrics(self) -> dict[str, float]:
        return {"bleu": self.bleu}

    def report(self) -> str:
        return f"BLEU {self.bleu:.2f}"

    def record(self) -> dict[str, float]:
        return self.metrics()


def evaluate(config: Config, bundle: UnigramBundle) -> UnigramEvaluation:
    sources, references = held_out(config.shard_dir, config.evaluate.split, bundle.languages)
    return UnigramEvaluation(quick_bleu([one.text for one in bundle.translate(sources)], references))


def translated(store: Registry, version: Version, sources: list[str], shards: Path) -> list[str]:
    bundle = load(store.bundle(version, shards.parent / f"version-{version.number}"))
    return [one.text for one in bundle.translate(sources)]


def judge(config: Config, store: Registry, new: Version, old: Version | None) -> Comparison:
    shards, settings = config.shard_dir, config.promote
    sources, references = held_out(shards, gate_split(shards, settings.split), read_manifest(shards).languages)
    theirs, ours = (
        sources if version is None else translated(store, version, sources, shards) for version in (old, new)
    )
    found = compare_translations(theirs, ours, references, read_manifest(shards).languages[1], trials=settings.trials)
    return Comparison("BLEU", found.candidate, found.baseline, found.p_value, len(references))


ARCHITECTURE = Architecture(UnigramConfig, kind="unigram", counted=True)
KIND = Kind(
    "a table", "translate by it", load, lambda bundle: lambda texts, _: [one.text for one in bundle.translate(texts)],
    open_translator=lambda bundle, *engine, **hardware: bundle,
)  # fmt: skip


class Counting(Training):
    """Nothing is trained: the release counts."""

    unread = ("train", "loader", "vectors")

    def validate(self, config: Config) -> None:
        check_shards(config)

    def fingerprint(self, config: Config) -> dict[str, Any]:
        return fingerprint(config)

    def weights_origin(self, config: Config) -> Any:
        return fingerprint(config)

    def stored_origin(self, facts: Mapping[str, Any]) -> Any:
        return facts.get("made_from")


TASK = Task("unigram", Counting(), save_bundle, evaluate, judge)
