"""The CTranslate2 exports of a bundle: their folders, and the names of their tokens."""

from collections.abc import Sequence
from typing import Literal

Quantisation = Literal["float32", "int8"]
FOLDERS: dict[str, str] = {"float32": "ct2", "int8": "ct2-int8"}  # a bundle's folder for each export


def distinct(tokens: Sequence[str]) -> list[str]:
    """The tokens, each made different from those before it: CTranslate2 looks ids up by their text."""
    seen: set[str] = set()
    names = []
    for number, token in enumerate(tokens):
        name = token if token not in seen else f"{token}\t{number}"
        seen.add(name)
        names.append(name)
    return names
