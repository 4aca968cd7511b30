"""The inputs of a sharding as plain values: equal values give equal bytes, wherever the files lie."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.model.files import file_sha256
from dragoman.model.languages import languages_of
from dragoman.model.shards.manifest import ShardsConfig
from dragoman.model.text.letters import case_language
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.pipelines.corpus.read.parts import identity_of
from dragoman.pipelines.corpus.read.sources import Source
from dragoman.pipelines.corpus.settings import CorpusConfig

# Keys added later, with the value that applies if they are missing, so that older shards still match.
_LATER: dict[str, Any] = {
    "same_as": None,
    "sentinels": 0,
    "case_markers": False,
    "lowercase": False,
    "punctuation": True,
    "segmenter": "auto",
    "encoding": "utf-8",
    "records": "line",
    "between": [],
    "run": 256,
    "place": "drawn",
    "blank": "drop",
    "keep_text": False,
    "gate": 0.0,
    "leaks": "auto",
    "script": False,
    "language": False,
    "labels": "classes",
    "rows": "auto",
    "parts": [],
    "header": False,
}
UNSAID = object()  # an identity has no value for a key
# Paths and names of files do not matter: their content identifies them.
_ELSEWHERE = {"check", "root", "needs_root", "train", "valid", "test", "gate", "fetch", "languages"}


def identity(
    corpus: CorpusConfig,
    tokenizer: TokenizerConfig,
    shards: ShardsConfig,
    pair: str,
    seed: int,
    sources: Sequence[Source],
) -> dict[str, Any]:
    """Returns the values that `config_hash` covers. Reads the corpus files completely, for their sha256."""
    values = _given({key: value for key, value in dataclasses.asdict(corpus).items() if key not in _ELSEWHERE})
    values["cut"] = _given(values["cut"])
    if corpus.parts:
        values["parts"] = identity_of(corpus.parts, pair)
    values["clean"] = _given(values["clean"])
    files = [
        {
            "split": source.split,
            **({"part": source.part} if source.part else {}),
            "places": list(source.places),
            "sha256": [file_sha256(file) for file in source.files],
        }
        for source in sources
    ]
    return {
        "corpus": values,
        "files": files,
        "pair": pair,
        "seed": seed,
        "shards": _given({key: getattr(shards, key) for key in ("chunk_records", "shard_lines", "keep_text")}),
        "tokenizer": _given(dataclasses.asdict(tokenizer)) | _cases(tokenizer, pair),
    }


def _cases(tokenizer: TokenizerConfig, pair: str) -> dict[str, Any]:
    """Returns the languages with their own lower case; shards from before it was followed differ."""
    languages = [case_language(code) for code in languages_of(pair)] if tokenizer.lowercase else []
    return {"cases": languages} if any(languages) else {}


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in _LATER or value != _LATER[key]}


def look_up(there: Mapping[str, Any], key: str) -> Any:
    """Returns the value of a dotted key in an identity, such as a manifest's; UNSAID if it has none."""
    value: Any = there
    for name in key.split("."):
        value = value.get(name, _LATER.get(name, UNSAID)) if isinstance(value, Mapping) else UNSAID
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
