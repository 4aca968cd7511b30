"""Dragoman's version: that of the checkout if there is one, else of the installed package."""

import tomllib
from pathlib import Path


def version() -> str:
    """Returns the version, such as "0.3.0"."""
    project = Path(__file__).resolve().parent.parent / "pyproject.toml"
    if project.is_file():
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
    from importlib.metadata import version as installed  # takes 10 ms, which every command would pay

    return installed("dragoman")
