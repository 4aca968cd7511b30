"""The models that a bundle's network and tokenizer come from, by the settings that named them."""

from collections.abc import Iterator, Mapping
from typing import Any

from dragoman.model.shards.manifest import Manifest

SETTINGS = ("train.init_from", "train.lora", "embeddings.", "tokenizer.same_as")


def ancestry(facts: Mapping[str, Any]) -> dict[str, str]:
    """Returns setting -> the model that it brought in, from a bundle's facts; empty for a network of its own."""
    models = {}
    if "init" in facts:
        models["train.init_from"] = _named(facts["init"])
    if lora := facts.get("lora"):
        models["train.lora"] = f"rank {lora['rank']}, alpha {lora['alpha']:g}, {' and '.join(lora['targets'])}"
    for side, entry in (facts.get("embeddings") or {}).items():
        if isinstance(entry, Mapping):
            models[f"embeddings.{side}"] = _named(entry)
    if "tokenizer_same_as" in facts:
        models["tokenizer.same_as"] = f"a tokenizer with the digest {facts['tokenizer_same_as'][:12]}"
    return models


def tokenizer_facts(manifest: Manifest) -> dict[str, str]:
    """Returns the fact about the tokenizer that `tokenizer.same_as` gave the shards; empty if they have their own."""
    same_as = manifest.config.get("tokenizer", {}).get("same_as")
    return {"tokenizer_same_as": same_as} if same_as else {}


def ancestry_lines(facts: Mapping[str, str]) -> Iterator[str]:
    """Yields a line per setting of `ancestry` among other tags, for a person."""
    for key, value in sorted(facts.items()):
        if key.startswith(SETTINGS):
            yield f"`{key}`: {value}"


def _named(record: Mapping[str, Any]) -> str:
    run = (record.get("run") or {}).get("name")
    return f"{record['reference']} ({f'run {run}, ' if run else ''}bundle {record['digest'][:12]})"
