"""The methods' configurations by architecture, free of torch; model/networks/architectures.py has their rows."""

from collections.abc import Mapping
from typing import Any

from dragoman.model.errors import unknown
from dragoman.model.schema import build
from dragoman.model.word_vectors.counting import BagOfWordsConfig, OneHotConfig, TfidfConfig
from dragoman.model.word_vectors.glove import GloveConfig
from dragoman.model.word_vectors.word2vec import Word2VecConfig

METHODS: dict[str, type[Any]] = {
    "word2vec": Word2VecConfig,
    "glove": GloveConfig,
    "one_hot": OneHotConfig,
    "bag_of_words": BagOfWordsConfig,
    "tfidf": TfidfConfig,
}


def method_type(name: str) -> type[Any]:
    """Returns a method's configuration class."""
    if name not in METHODS:
        raise unknown("model.architecture", name, METHODS)
    return METHODS[name]


def method_config(values: Mapping[str, Any]) -> Any:
    """Returns a method's typed configuration from plain values; their key `architecture` chooses its type."""
    return build(method_type(str(values.get("architecture"))), values, "model")
