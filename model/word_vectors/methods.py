"""The methods' configurations by architecture, free of torch; model/networks/architectures.py has their rows."""

from collections.abc import Mapping
from typing import Any

from dragoman.model.errors import unknown
from dragoman.model.loaded import loaded
from dragoman.model.schema import build

METHODS = {
    "word2vec": "dragoman.model.word_vectors.word2vec:Word2VecConfig",
    "glove": "dragoman.model.word_vectors.glove:GloveConfig",
    "one_hot": "dragoman.model.word_vectors.counting:OneHotConfig",
    "bag_of_words": "dragoman.model.word_vectors.counting:BagOfWordsConfig",
    "tfidf": "dragoman.model.word_vectors.counting:TfidfConfig",
}


def method_type(name: str) -> type[Any]:
    """Returns a method's configuration class."""
    if name not in METHODS:
        raise unknown("model.architecture", name, METHODS)
    method: type[Any] = loaded(METHODS[name])
    return method


def method_config(values: Mapping[str, Any]) -> Any:
    """Returns a method's typed configuration from plain values; their key `architecture` chooses its type."""
    return build(method_type(str(values.get("architecture"))), values, "model")
