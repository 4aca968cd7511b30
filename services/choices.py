"""The values that a key may have, read from the source of the dataclass that types it.

Importing the sections would load torch, seconds for every key of the tabulator; their annotations say the same.
"""

import ast
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECTIONS = ("pipelines.config", "services.config")  # modules whose `Config` holds every section of every verb


def choices(key: str) -> list[str]:
    """What SECTION.KEY may be, as the command line writes it; empty where it is no enumeration, or no key."""
    for module in SECTIONS:
        found = _of_field(module, "Config", key.split("."))
        if found:
            return found
    return []


def _of_field(module: str, name: str, path: list[str]) -> list[str]:
    """Follow `path` through the dataclasses from `name` on, as `module` knows that name."""
    where, node = _definition(module, name)
    if not isinstance(node, ast.ClassDef):
        return []
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == path[0]:
            if len(path) == 1:
                return _literals(where, statement.annotation)
            return _of_field(where, ast.unparse(statement.annotation), path[1:])
    return [one for base in node.bases for one in _of_field(where, ast.unparse(base), path)]


def _literals(module: str, annotation: ast.expr) -> list[str]:
    match annotation:
        case ast.Constant(value=None):
            return ["null"]
        case ast.Name(id="bool"):
            return ["true", "false"]
        case ast.BinOp(left=left, right=right):
            return _literals(module, left) + _literals(module, right)
        case ast.Subscript(value=ast.Name(id="Literal"), slice=chosen):
            values = chosen.elts if isinstance(chosen, ast.Tuple) else [chosen]
            return [str(ast.literal_eval(value)) for value in values]
        case ast.Name(id=alias):
            where, node = _definition(module, alias)
            return _literals(where, node.value) if isinstance(node, ast.Assign | ast.AnnAssign) and node.value else []
    return []


def _definition(module: str, name: str) -> tuple[str, ast.stmt | None]:
    """The class or the assignment that `name` is in `module`, and the module that it really stands in."""
    for node in _parse_module(module):
        match node:
            case ast.ClassDef(name=found) if found == name:
                return module, node
            case ast.Assign(targets=[ast.Name(id=found)]) | ast.AnnAssign(target=ast.Name(id=found)) if found == name:
                return module, node
            case ast.ImportFrom(module=str(source), names=names):
                for alias in names:
                    if (alias.asname or alias.name) == name:
                        return _definition(source, alias.name)
    return module, None


@lru_cache
def _parse_module(module: str) -> list[ast.stmt]:
    """The statements of one of our modules; none of another's."""
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8")).body if path.is_file() else []
