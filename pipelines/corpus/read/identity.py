"""The inputs of a sharding as plain values: equal values give equal bytes, wherever the files lie."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dragoman.model.files import file_sha256
from dragoman.model.shards.manifest import ShardsConfig
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.pipelines.corpus.settings import CorpusConfig, CorpusPart

if TYPE_CHECKING:
    from dragoman.pipelines.corpus.read.sources import Source

UNSAID = object()  # an identity has no value for a key
# Paths and names of files do not matter: their content identifies them.
_ELSEWHERE = {"check", "root", "needs_root", "train", "valid", "test", "gate", "languages"}


def identity(
    corpus: CorpusConfig,
    tokenizer: TokenizerConfig,
    shards: ShardsConfig,
    pair: str,
    seed: int,
    sources: Sequence["Source"],
) -> dict[str, Any]:
    """Returns the values that `config_hash` covers. Reads the corpus files completely, for their sha256."""
    values = {key: value for key, value in dataclasses.asdict(corpus).items() if key not in _ELSEWHERE}
    values["parts"] = identity_of(corpus.parts, pair)
    files = [
        {
            "split": source.split,
            **({"part": source.part} if source.part else {}),
            "columns": list(source.columns),
            "sha256": [file_sha256(file) for file in source.files],
        }
        for source in sources
    ]
    return {
        "corpus": values,
        "files": files,
        "pair": pair,
        "seed": seed,
        "shards": {key: getattr(shards, key) for key in ("chunk_records", "shard_lines", "keep_text")},
        "tokenizer": dataclasses.asdict(tokenizer),
    }


def identity_of(parts: Sequence[CorpusPart], pair: str) -> list[dict[str, Any]]:
    """Returns the values of `corpus.parts` that shards depend on besides the files: those of `Part.facts`."""
    return [{"name": part.name, "pair": part.pair or pair, "tags": part.tags} for part in parts]


def value_of(there: Mapping[str, Any], key: str) -> Any:
    """Returns the value of a dotted key in an identity, such as a manifest's; UNSAID if it has none."""
    value: Any = there
    for name in key.split("."):
        value = value.get(name, UNSAID) if isinstance(value, Mapping) else UNSAID
    return value


def difference(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Returns the first dotted key in which two identities differ, with both values; empty if they are equal."""
    for key in sorted({*there, *here}):
        old, new = there.get(key), here.get(key)
        if old == new:
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            return f"{key}.{difference(old, new)}"
        if key == "files":
            return "files: the corpus files have other contents"
        return f"{key}: {old!r} there, {new!r} here"
    return ""
