"""A model's translations of several sets."""

from dataclasses import dataclass

from dragoman.model.bundles.translation import TranslationBundle
from dragoman.model.settings import DecodeConfig


@dataclass(frozen=True)
class System:
    """A model's translations of every set."""

    label: str
    bundle: TranslationBundle
    engine: str
    decode: DecodeConfig
    translations: list[list[str]]
