"""`python -m bench` lists the benchmarks; `python -m bench NAME [--quick] [...]` runs one."""

import ast
import importlib
import signal
import sys
from pathlib import Path

from bench.result import Result
from dragoman.model.openmp import limit_spinning


def benchmarks() -> dict[str, str]:
    """Name -> first line of the docstring of every module here that has a `run`; none is imported."""
    found = {}
    here = Path(__file__).parent
    for path in sorted([*here.glob("*.py"), *here.glob("*/__init__.py")]):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in tree.body):
            name = path.parent.name if path.stem == "__init__" else path.stem
            found[name] = (ast.get_docstring(tree) or "").split("\n", maxsplit=1)[0]
    return found


def main(argv: list[str]) -> int:
    """List, or run the benchmark that the first word names. 2: there is no such benchmark."""
    known = benchmarks()
    if not argv or argv[0] in ("-h", "--help"):
        print(__doc__)
        for name, about in known.items():
            print(f"  {name:<12} {about}")
        return 0
    name, *rest = argv
    if name not in known:
        print(f"bench: {name!r} is not known. Choices: {', '.join(known)}", file=sys.stderr)
        return 2
    limit_spinning()  # before a benchmark imports torch
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # processes and folders of its own go too
    quick = "--quick" in rest
    result: Result = importlib.import_module(f"bench.{name}").run(quick, [word for word in rest if word != "--quick"])
    print(f"{result.name}: {result.unit}")
    print(result.line())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
