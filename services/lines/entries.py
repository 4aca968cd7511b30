"""Starts `dragoman line LINE [vars.NAME=VALUE] [line.KEY=VALUE]`."""

import importlib
import re
from collections.abc import Sequence
from typing import Any

import yaml

from dragoman.conf import compose
from dragoman.model.errors import UserError
from dragoman.services.lines.settings import LineRoot

VARIABLE = re.compile(r"vars\.([\w-]+)=(.*)", re.DOTALL)


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns its exit code."""
    name, *words = argv if argv and not argv[0].startswith("-") and "=" not in argv[0] else ("", *argv)
    changed = [match for word in words if (match := VARIABLE.fullmatch(word))]
    ours = [word for word in words if not VARIABLE.fullmatch(word)]

    def work(root: LineRoot) -> int:
        if not name:
            raise UserError("say which line: dragoman line LINE.yaml, or a recipe such as dragoman line student")
        changes = {match[1]: _value(match) for match in changed}
        code: int = importlib.import_module("dragoman.services.lines.line").run_line(root, name, changes)
        return code

    return compose.run(work, LineRoot, ours, "line")


def _value(match: re.Match[str]) -> Any:
    try:
        return yaml.safe_load(match[2])
    except yaml.YAMLError as problem:
        reason = getattr(problem, "problem", None) or "it cannot be read"
        raise UserError(f"{match[0]}: is no YAML ({reason}); quote it as 'vars.{match[1]}=\"...\"'") from None
