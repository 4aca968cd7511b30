"""Advice can be followed: every setting and command that a message names exists, and its value is one that it takes."""

import ast
import copy
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from deploy.defaults import ROOTS
from dragoman.conf import compose
from dragoman.conf.groups import choices, merge_choice, roots, sections, written_defaults
from dragoman.model.errors import UserError
from dragoman.services import cli

REPOSITORY = Path(__file__).resolve().parents[1]
SETTING = re.compile(r"(?<![\w.\-/{\[?&\"§])([a-z][a-z_]*(?:\.[a-z_]+)*)=([^\s,;:)`'\"]*)")
COMMAND = re.compile(r"`dragoman ([a-z]+)|: dragoman ([a-z]+) ")
HOLE = "§"  # where a message has a value of its own
KEYS = {key for root in roots() for key in written_defaults(root)} | {
    f"model.{key}" for choice in choices("model") for key in merge_choice("model", choice)
}
SECTIONS = {section for root in roots() for section in sections(root)} | {"experiment"}
SAID_BY = ("UserError", "ServiceError", "JobError", "info", "warning", "log", "print", "refuse")  # who is told


@cache
def messages() -> list[tuple[str, str]]:
    """(file:line, text) of every message in the code; what is computed in it is a hole."""
    found = []
    for package in ("conf", "model", "pipelines", "services"):
        for path in sorted((REPOSITORY / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and _name(node.func) in SAID_BY:
                    for argument in node.args:
                        for text in _texts(argument):
                            found.append((f"{path.relative_to(REPOSITORY)}:{node.lineno}", text))
    return found


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _texts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(part.value if isinstance(part, ast.Constant) else HOLE for part in node.values)
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                yield from _texts(part.value)
    elif isinstance(node, ast.BinOp | ast.IfExp | ast.BoolOp):
        for child in ast.iter_child_nodes(node):
            yield from _texts(child)


def advised() -> list[tuple[str, str, str]]:
    """(where, key, value) of each setting that a message names."""
    return sorted(
        {(where, key, value.rstrip(".")) for where, text in messages() for key, value in SETTING.findall(text)}
    )


NO_SETTINGS = {  # what looks like one: words of other verbs, and of a file
    *("install", "uninstall", "cpus", "gpus", "key", "segmenter", "words", "experiment", "language", "labels"),
    "query.in",  # the short form of query.sentence
    "corpus.fields",  # a section that is given as a whole
    *("activation_function", "model_type", "layer_norm_epsilon", "d_model"),  # of a config.json of transformers
    *("d_kv", "feed_forward_proj", "tie_word_embeddings", "head_dim", "hidden_size", "rope_type"),  # the same
    *("ends", "role", "owner"),  # words of dragoman tokens and token
    "service.proxy.roles.submitter",  # a key that a user makes
    *("state", "since", "tag"),  # filters of dragoman jobs, stop and rm
    "jobs",  # a word of dragoman quota
}


def test_every_setting_that_a_message_names_exists() -> None:
    found = advised()
    assert len(found) > 200
    wrong = [
        f"{where}: {key}={value}"
        for where, key, value in found
        if key not in KEYS and key not in SECTIONS and key not in NO_SETTINGS
    ]
    assert wrong == []


def test_every_value_that_a_message_names_is_one_that_the_setting_takes() -> None:
    wrong = []
    composed = {root: compose.values([], root) for root in ROOTS}
    for where, key, value in advised():
        if not value or not re.fullmatch(r"[a-z0-9_.+-]+|true|false|null", value) or key not in KEYS or "." not in key:
            continue
        *path, last = key.split(".")
        for root in (root for root in ROOTS if key in written_defaults(compose.file_of(root))):
            values = copy.deepcopy(composed[root])
            section: Any = values
            for name in path:
                section = section[name]
            section[last] = yaml.safe_load(value)
            try:
                compose.typed(root, values)
            except UserError as problem:
                wrong.append(f"{where}: {key}={value}: {problem}")
    assert wrong == []


def test_every_command_that_a_message_names_is_a_verb() -> None:
    named = [(where, verb) for where, text in messages() for pair in COMMAND.findall(text) for verb in pair if verb]
    assert len(named) > 10
    assert [one for one in named if one[1] not in cli.VERBS] == []
