"""Dragoman's version: the checkout's own where this is one, else the installed package's."""

import importlib.metadata
import tomllib
from pathlib import Path


def version() -> str:
    """For example "0.1.0"."""
    project = Path(__file__).resolve().parent.parent / "pyproject.toml"
    if project.is_file():
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
    return importlib.metadata.version("dragoman")
