"""The options of an import, and the result of reading a model."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dragoman.model.networks.transformer import Transformer, TransformerConfig
from dragoman.model.text.tokenizer import TokenizerPair


@dataclass(frozen=True)
class ImportOptions:
    """The languages, and the tokens and words that a multilingual model is told them by."""

    source_language: str
    target_language: str
    source_token: str | None = None  # of the source's language; None: found by its code
    target_token: str | None = None
    prefix: str = ""  # T5: words before every source


@dataclass(frozen=True)
class Imported:
    """A network with its weights, its tokenizers, and what there is to tell about it."""

    network: Transformer
    tokenizers: TokenizerPair
    notes: Mapping[str, object] = field(default_factory=dict)

    @property
    def config(self) -> TransformerConfig:
        return self.network.config
