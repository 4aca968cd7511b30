"""Starts `dragoman line LINE [vars.NAME=VALUE] [line.KEY=VALUE]`."""

import importlib
import re
import sys
from collections.abc import Sequence

import yaml

from conf import compose
from model.errors import UserError
from services.lines.settings import LineRoot

VARIABLE = re.compile(r"vars\.([\w-]+)=(.*)", re.DOTALL)


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns its exit code."""
    wanted, *words = argv if argv and not argv[0].startswith("-") and "=" not in argv[0] else ("", *argv)
    changes = {match[1]: yaml.safe_load(match[2]) for word in words if (match := VARIABLE.fullmatch(word))}
    ours = [word for word in words if not VARIABLE.fullmatch(word)]

    def work(root: LineRoot) -> int:
        if not wanted:
            raise UserError("say which line: dragoman line LINE.yaml, or a recipe such as dragoman line student")
        code: int = importlib.import_module("services.lines.line").run_line(root, wanted, changes)
        return code

    return compose.run(work, LineRoot, ours, "line")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
