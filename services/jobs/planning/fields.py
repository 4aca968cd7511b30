"""Reads a command's settings from the typed configuration: keys, types, choices, defaults, comments.

It runs in the planner's process, because the dataclasses belong to the pipelines.
"""

import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml

from dragoman.conf import groups
from dragoman.model.errors import unknown
from dragoman.model.networks.architectures import architecture
from dragoman.model.ranges import range_in
from dragoman.services.jobs.planning.refusals import OURS, job_root
from dragoman.services.jobs.planning.refusals import VERBS as SUBMITTED
from dragoman.services.verbs import VERBS

GENERAL = ("experiment", "corpus", "tokenizer", "model", "pair", "name", "seed")  # first, for every command
MORE = {"train": ("embeddings", "evaluate", "registry")}  # sections beside those of the command's help
COMMENT = re.compile(r"\s#\s?(.*)$")
CHOICES = re.compile(r"[\w.-]+( \| [\w.-]+)+")  # in a comment: pre | post
Row = dict[str, Any]


def fields(verb: str, chosen: Mapping[str, str]) -> dict[str, Any]:
    """Returns `{"groups": [...], "sections": [{"name", "choice", "about", "fields": [...]}]}` for `chosen` choices."""
    if verb not in SUBMITTED:
        raise unknown("verb", verb, SUBMITTED)
    experiment = chosen.get("experiment", "")
    if experiment and experiment not in groups.choices("experiment"):
        raise unknown("experiment", experiment, groups.choices("experiment"))
    said = groups.content(f"experiment/{experiment}") if experiment else {}
    defaults = groups.default_choices() | _overridden(said)
    choices = {name: chosen.get(name) or str(defaults.get(name) or "") for name in defaults}
    sections = [*dict.fromkeys((*VERBS[verb].sections, *MORE.get(verb, ())))]
    sections_shown = [name for name in sections if name not in OURS]
    general = [name for name in dict.fromkeys((*GENERAL, *sections_shown)) if name in defaults]
    for name in general:
        if choices[name] and choices[name] not in groups.choices(name):
            raise unknown(name, choices[name], groups.choices(name))
    hints = get_type_hints(job_root(), include_extras=True)
    return {
        "groups": [_group(name, choices[name], str(defaults.get(name) or "")) for name in general],
        "general": list(_general(hints, said)),
        "sections": [
            _section(name, choices.get(name, ""), hints.get(name), said.get(name) or {}) for name in sections_shown
        ],
    }


def _group(name: str, choice: str, default: str) -> Row:
    return {"key": name, "choices": groups.choices(name), "value": choice, "default": default}


def _overridden(said: Mapping[str, Any]) -> dict[str, str]:
    """Returns group -> the choice that an experiment makes."""
    entries = [entry for entry in said.get("defaults", ()) if isinstance(entry, Mapping)]
    return {key.rpartition("/")[2]: str(choice) for entry in entries for key, choice in entry.items()}


def _general(hints: Mapping[str, Any], said: Mapping[str, Any]) -> Iterator[Row]:
    comments = _comments(groups.text(groups.RECIPE))
    values = groups.content(groups.RECIPE)
    for key in GENERAL:
        if key in values:
            yield _field(key, said.get(key, values[key]), hints.get(key), comments.get(key, ""))


def _section(name: str, choice: str, hint: Any, said: Mapping[str, Any]) -> Row:
    """Returns a section; `said` has the values as the experiment sets them."""
    text = groups.section_page(groups.RECIPE, name, choice)
    about = next((line.lstrip("# ") for line in text.splitlines() if line.startswith("#")), "")
    values = groups.over(groups.merge_choice(name, choice) if choice else groups.written()[name], said)
    if name == "model":  # its type depends on the architecture
        hint = architecture(str(values["architecture"])).config
    rows = list(_rows(values, hint, f"{name}.", _comments(text)))
    refused = [row for row in rows if not any(row["key"] == ours or row["key"].startswith(f"{ours}.") for ours in OURS)]
    return {"name": name, "choice": choice, "about": about, "fields": refused}


def _rows(values: Mapping[str, Any], hint: Any, where: str, comments: Mapping[str, str]) -> Iterator[Row]:
    hints = get_type_hints(hint, include_extras=True) if is_dataclass(hint) else {}
    for key, value in values.items():
        if key in ("defaults", "name"):
            continue
        inner, path = hints.get(key), f"{where}{key}"
        if isinstance(value, Mapping):
            yield from _rows(value, inner, f"{path}.", comments)
        else:
            yield _field(path, value, inner, comments.get(path.partition(".")[2], ""))


def _field(key: str, value: Any, hint: Any, comment: str) -> Row:
    bounds = range_in(hint)
    kind, choices = _kind(_bare(hint), value)
    said = CHOICES.match(comment)
    if not choices and said and str(value) in said[0].split(" | "):
        kind, choices = "choice", said[0].split(" | ")
    made = isinstance(value, str) and "${" in value  # made of other keys: in the field until somebody changes it
    default, placeholder = ("", str(value)) if made else (_written(value), "")
    row = {"key": key, "kind": kind, "choices": choices, "default": default, "comment": comment}
    return row | {"placeholder": placeholder, "range": str(bounds or "")}


def _kind(hint: Any, value: Any) -> tuple[str, list[str]]:
    """Returns (number, whole, yes, choice or text; the choices)."""
    if get_origin(hint) in (Union, types.UnionType):
        inner = [_bare(argument) for argument in get_args(hint) if argument is not types.NoneType]
        _, choices = _kind(inner[0], value) if len(inner) == 1 else ("text", [])
        return ("choice", ["null", *choices]) if choices else ("text", [])
    if get_origin(hint) is Literal:
        return "choice", [str(argument) for argument in get_args(hint)]
    if hint is bool or isinstance(value, bool):
        return "choice", ["true", "false"]
    if isinstance(value, str) and "${" in value:
        return "text", []
    return {int: ("whole", []), float: ("number", [])}.get(hint, ("text", []))


def _bare(hint: Any) -> Any:
    """Returns the annotation without its range."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _written(value: Any) -> str:
    """Returns a value as an override writes it."""
    return yaml.safe_dump([value], default_flow_style=True, width=10**6, allow_unicode=True)[1:-2]


def _comments(text: str) -> dict[str, str]:
    """Returns dotted key -> the comment on its line."""
    lines, comments = text.splitlines(), {}

    def walk(node: yaml.Node | None, where: str) -> None:
        for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
            match = COMMENT.search(lines[key.start_mark.line])
            if match and value.start_mark.line == key.start_mark.line:
                comments[f"{where}{key.value}"] = match[1].strip()
            walk(value, f"{where}{key.value}.")

    walk(yaml.compose(text), "")
    return comments
