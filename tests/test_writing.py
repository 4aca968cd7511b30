"""The product's docstrings say what a function returns or does, subject first."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ODD = ("What", "Whether", "Whose", "How", "Of")  # first words that name a question in place of an answer


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the line and the text of every docstring of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text


def product_files() -> list[Path]:
    """Returns the product's Python files, without the exceptions."""
    rooms = ("conf", "model", "pipelines", "services", "dragoman")
    return [path for room in rooms for path in (ROOT / room).rglob("*.py")]


def test_no_docstring_begins_with_a_question() -> None:
    odd = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in product_files()
        for line, text in docstrings(path)
        if text.split()[0] in ODD
    ]
    assert not odd, "say what is returned: Returns ...\n" + "\n".join(odd)
