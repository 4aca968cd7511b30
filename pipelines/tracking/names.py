"""Turns keys and values into MLflow's form."""

import posixpath
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from dragoman.model.errors import UserError
from dragoman.model.schema import flat

KEY_LENGTH = 250
PARAMETER_LENGTH = 6_000
TAG_LENGTH = 8_000


def key(name: str) -> str:
    """Returns `name` as a key of MLflow: characters other than letters, digits and `_-./: ` become `_`."""
    cleaned = re.sub(r"[^\w\-./: ]", "_", name)
    cleaned = posixpath.normpath(cleaned.strip("/ ") or "_").replace("..", "_")
    return "_" if cleaned == "." else cleaned[:KEY_LENGTH]


def keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `values` under clean keys; keys that would become equal get a number."""
    result: dict[str, Any] = {}
    for name, value in values.items():
        cleaned, count = key(name), 2
        while cleaned in result:
            cleaned = f"{key(name)[: KEY_LENGTH - 5]}_{count}"
            count += 1
        result[cleaned] = value
    return result


def metric(name: str) -> str:
    """Returns a metric's name in MLflow, `train/loss` or `valid/loss`; names with a part before a slash keep it."""
    if "/" in name:
        return name
    return f"valid/{name.removeprefix('valid_')}" if name.startswith("valid_") else f"train/{name}"


def cut(text: str, length: int) -> str:
    """Returns `text`, or its beginning with a note of its length."""
    note = f" ... ({len(text)} characters)"
    return text if len(text) <= length else text[: length - len(note)] + note


def flat_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Returns a nested configuration as `section.key` -> text."""
    return {key: str(value) for key, value in flat(values)}


def artifact_path(to: str) -> str:
    """Returns a path inside a run's artifacts ("" is their root)."""
    path = PurePosixPath(to)
    if path.is_absolute() or ".." in path.parts:
        raise UserError(f"artifact path {to!r}: must be relative and without '..'")
    return "" if str(path) == "." else str(path)
