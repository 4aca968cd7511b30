"""A kind of model in one file: a table that translates each token by itself, with three rows in the three tables.

Of every source token it keeps the target token with the largest Dice coefficient, counted over the training pairs.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors.numpy import load_file, save_file

from model.bundles.directory import WEIGHTS, Bundle, new_bundle, read_record
from model.inference.kinds import Answers, Kind
from model.inference.translator import Translation
from model.networks.architectures import Architecture, model_config
from model.settings import DecodeConfig
from model.text.tokenizer import SPECIAL, TokenizerPair, load_pair
from pipelines.config import Config
from pipelines.evaluation.metrics import paired_bootstrap, quick_bleu
from pipelines.evaluation.translation import held_out
from pipelines.shards.manifest import manifest_hash, read_manifest
from pipelines.shards.reader import ShardReader
from pipelines.tasks.base import Measured, Task
from pipelines.tasks.run_directory import check_shards
from pipelines.tracking.promotion import Comparison, PromoteConfig
from pipelines.tracking.registry import Registry, Version


@dataclass
class UnigramConfig:
    architecture: Literal["unigram"] = "unigram"
    name: str = "unigram"
    least: int = 1  # pairs in which two tokens must meet

@dataclass(kw_only=True)
class UnigramBundle(Bundle):
    tokenizers: TokenizerPair
    table: np.ndarray[Any, np.dtype[np.int64]]  # (source vocabulary,) target ids
    decode: DecodeConfig

    @property
    def languages(self) -> tuple[str, str]:
        source, _, target = self.pair.partition("-")
        return source, target

class UnigramTranslator:
    def __init__(self, bundle: UnigramBundle, *_engine: Any, **_hardware: Any) -> None:
        self.bundle = bundle

    def translate(self, lines: Sequence[str], _decode: Any = None, on_error: str = "raise") -> list[Translation]:
        bundle = self.bundle
        found = [bundle.table[ids] for ids in bundle.tokenizers.source.encode(list(lines))]
        return [Translation(text, 0.0) for text in bundle.tokenizers.target.decode([ids.tolist() for ids in found])]

def load(directory: Path) -> UnigramBundle:
    record, common = read_record(directory, "unigram", ("vocabulary",))
    table = load_file(directory / WEIGHTS)["table"]
    pair, config = load_pair(directory, record["tokenizer"]), model_config(record["model"])
    return UnigramBundle(**common, config=config, tokenizers=pair, table=table, decode=DecodeConfig(beam=1))

def answers(bundle: Any) -> Answers:
    return lambda texts, _settings: [one.text for one in UnigramTranslator(bundle).translate(texts)]

def fingerprint(config: Config) -> dict[str, Any]:
    return {"shards": manifest_hash(config.shard_dir), "model": asdict(model_config(config.model))}

def save_bundle(config: Config, directory: Path, tracked: Any) -> UnigramBundle:
    manifest, settings = read_manifest(config.shard_dir), model_config(config.model)
    tokenizers, reader = load_pair(config.shard_dir, manifest.tokenizer), ShardReader(config.shard_dir, "train")
    left, right, both = Counter[int](), Counter[int](), Counter[tuple[int, int]]()
    for chunk in reader:
        for source, target in chunk.rows():
            ours, theirs = set(source.tolist()), set(target.tolist())
            left.update(ours), right.update(theirs), both.update((a, b) for a in ours for b in theirs)
    best = {a: (0.0, a) for a in range(tokenizers.source.vocabulary)}
    for (a, b), met in both.items():
        if met >= settings.least and b >= len(SPECIAL):
            best[a] = max(best[a], (2 * met / (left[a] + right[b]), b))
    table = np.array([best[a][1] for a in sorted(best)], np.int64)
    record = {
        "kind": "unigram", "architecture": "unigram", "model": asdict(settings), "vocabulary": len(table),
        "tokenizer": tokenizers.describe(),
    }  # fmt: skip
    facts = {"pair": config.pair, "made_from": fingerprint(config), "run": {"name": config.name, "id": tracked.run_id}}
    with new_bundle(directory, record, facts) as work:
        save_file({"table": table}, work / WEIGHTS)
        tokenizers.save(work)
    return load(directory)

def bleu(bundle: UnigramBundle, shards: Path, split: str) -> tuple[float, list[str], list[str]]:
    sources, references = held_out(shards, split, bundle.languages)
    hypotheses = [one.text for one in UnigramTranslator(bundle).translate(sources)]
    return quick_bleu(hypotheses, references), hypotheses, references

def evaluate(config: Config, bundle: UnigramBundle) -> Measured:
    score, *details = bleu(bundle, config.shard_dir, config.evaluate.split)
    named = {"bleu": score}
    return Measured(report=f"BLEU {score:.2f}", scores=named, facts=named, summary=named, details=details)

def write(measured: Measured, folder: Path) -> Sequence[Path]:
    (path := folder / "evaluation.json").write_text(json.dumps(measured.summary))
    return [path]

def judge(store: Registry, new: Version, old: Version, config: PromoteConfig, shards: Path, _sets: Any) -> Comparison:
    bundles = [load(store.bundle(one, shards.parent / f"version-{one.number}")) for one in (old, new)]
    (_, theirs, references), (_, ours, _) = (bleu(one, shards, config.split) for one in bundles)
    found = paired_bootstrap(theirs, ours, references, bundles[0].languages[1], samples=config.samples)
    return Comparison("BLEU", found.candidate, found.baseline, found.p_value, len(references))

ARCHITECTURE = Architecture(UnigramConfig, kind="unigram", counted=True)
KIND = Kind("a table of words", "translate by it", load, answers, open_translator=UnigramTranslator)
TASK = Task(
    kind="unigram", unread=("train", "loader", "vectors"), validate=check_shards, validate_settings=lambda config: None,
    fingerprint=fingerprint, needs_training=lambda config: True, plan=lambda config: None,
    train_rank=lambda config, ranks: None, weights_origin=fingerprint,
    stored_origin=lambda facts: facts.get("made_from"), save_bundle=save_bundle, evaluate=evaluate, write=write,
    record=lambda *given: None, compare=lambda config, ours, rivals, folder: f"{len(rivals)} rivals", judge=judge,
)  # fmt: skip
