"""The closed table of the ways to word vectors. A new one is a file, a config dataclass, a row here and a YAML."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from model.errors import UserError, unknown
from model.schema import build
from model.word_vectors.counting import BagOfWordsConfig, OneHotConfig, TfidfConfig
from model.word_vectors.glove import GloveConfig
from model.word_vectors.word2vec import Word2VecConfig

Kind = Literal["learned", "counted"]


@dataclass(frozen=True)
class Method:
    """One row."""

    config: type[Any]
    kind: Kind  # learned: in rounds over segments; counted: in one pass, with no tables to train


METHODS: dict[str, Method] = {
    "word2vec": Method(Word2VecConfig, "learned"),
    "glove": Method(GloveConfig, "learned"),
    "one_hot": Method(OneHotConfig, "counted"),
    "bag_of_words": Method(BagOfWordsConfig, "counted"),
    "tfidf": Method(TfidfConfig, "counted"),
}


def is_vectors(values: Mapping[str, Any]) -> bool:
    """Whether a model's plain values are those of word vectors rather than of a network."""
    return values.get("architecture") in METHODS


def method(name: str) -> Method:
    """The row of `name`.

    Raises:
        UserError: a name that is not in the table.
    """
    if name not in METHODS:
        raise unknown("model.architecture", name, METHODS)
    return METHODS[name]


def method_config(values: Mapping[str, Any]) -> Any:
    """The typed configuration of one method from plain values, chosen by their key `architecture`.

    Raises:
        UserError: no or an unknown architecture, an unknown key, a value of the wrong type.
    """
    if "architecture" not in values:
        raise UserError(f"model.architecture: missing. Choices: {', '.join(sorted(METHODS))}")
    return build(method(str(values["architecture"])).config, values, "model")
