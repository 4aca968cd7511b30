"""The names of a corpus's files as the configuration writes them, and what the placeholders in them stand for."""

from typing import Literal

from dragoman.model.languages import is_single, same_language, split_pair
from dragoman.pipelines.corpus.settings import CorpusConfig

Split = Literal["train", "valid", "test", "gate"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test", "gate")


def names_of(value: str | list[str] | None) -> list[str]:
    if not value:
        return []
    return [value] if isinstance(value, str) else list(value)


def fill_pattern(config: CorpusConfig, pair: str, pattern: str) -> str:
    for name, language in _placeholders(config, pair).items():
        pattern = pattern.replace("{" + name + "}", language)
    return pattern


def as_corpus_writes(config: CorpusConfig, language: str) -> str:
    """Returns the corpus files' name of a language."""
    return next((written for code, written in config.languages.items() if same_language(code, language)), language)


def is_column(config: CorpusConfig, language: str) -> bool:
    """Returns True if a column of the corpus is named after the language."""
    return any(same_language(name, language) for name in config.columns)


def _placeholders(config: CorpusConfig, pair: str) -> dict[str, str]:
    """Returns the values of `{source}`, `{target}` and `{other}`; for text all three are its one language."""
    alone = config.format in ("text", "labelled") or (config.format == "webdataset" and is_single(pair))
    source, target = (pair, pair) if alone else split_pair(pair)
    named = {language for language in (source, target) if is_column(config, language)}
    other = next((language for language in (target, source) if language not in named), target)
    return {
        name: as_corpus_writes(config, language)
        for name, language in (("source", source), ("target", target), ("other", other))
    }
