"""A user's own settings: a file (`--config FILE`) as overrides, and a folder of more choices (DRAGOMAN_CONF)."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dragoman.conf.groups import FOLDER, OVERRIDE, VARIABLE, default_choices
from dragoman.conf.words import is_plain, maps, read_plain
from dragoman.model.errors import UserError

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")  # Hydra reads other letters only in quotes
KEY = re.compile(r"\+{0,2}[A-Za-z_][A-Za-z0-9_.-]*")


def read_settings(name: str) -> list[str]:
    """Returns the YAML file `name` as overrides. It may be an experiment's file: `override /model: X` chooses as there.

    Raises UserError: it is no file of settings.
    """
    import yaml

    try:
        values = _as_typed(yaml.compose(Path(name).read_text(encoding="utf-8"), yaml.SafeLoader))
    except yaml.MarkedYAMLError as problem:
        line = problem.problem_mark.line + 1 if problem.problem_mark else 1
        raise UserError(f"--config {name}: line {line} is not YAML: {problem.problem}") from None
    except OSError as problem:
        raise UserError(f"--config {name}: {problem.strerror or 'cannot be read as YAML'}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise UserError(f"--config {name}: not a YAML file of settings") from None
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise UserError(f"--config {name}: must hold settings such as `seed: 2`, a key and its value each")
    return as_words(values, f"--config {name}")


class _Typed(str):
    """A value without quotes: what the same letters are on the command line (`0123`, `12:30:45` and `on` are texts)."""


def _as_typed(node: Any) -> Any:
    """Returns a node of a YAML file as mappings, lists and texts; null where nothing stands."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        return {_as_typed(key): _as_typed(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_as_typed(item) for item in node.value]
    if node is None or (node.style is None and node.value in ("", "~")):
        return None
    return _Typed(node.value) if node.style is None else str(node.value)


def as_words(values: Mapping[str, Any], where: str) -> list[str]:
    """Returns settings as words of the command line: choices (`model=...`), then values. `where` begins messages.

    Raises UserError: a value is not plain, or a list of defaults has more than choices.
    """
    groups = default_choices()
    choices: list[str] = []
    words: list[str] = []
    for key, value in values.items():
        if key == "defaults":
            choices += [f"{group}={choice}" for group, choice in _chosen(value, where)]
        elif key in groups and (value is None or isinstance(value, str)):
            choices.append(f"{key}={_value(value, key, where)}")
        else:
            words += _flat(key, value, where)
    return choices + words


def checked_folder(name: str) -> Path:
    """Returns the folder of a user's own choices, laid out like conf/: experiment/NAME.yaml, model/NAME.yaml ...

    Raises UserError: it is no folder, or a file in it has the name of one of ours, which would win silently.
    """
    folder = Path(name).expanduser().absolute()
    if not folder.is_dir():
        raise UserError(f"{VARIABLE}={name}: not a folder; name one that holds experiment/NAME.yaml, model/NAME.yaml")
    if folder != FOLDER:
        for path in sorted(folder.glob("*/*.yaml")):
            if (FOLDER / path.relative_to(folder)).is_file():
                raise UserError(f"{VARIABLE}: {path} has the name of one of Dragoman's own; give it another name")
    return folder


def search_path() -> list[str]:
    """Returns the word that lets Hydra search the folder that DRAGOMAN_CONF names; empty if it names none."""
    name = os.environ.get(VARIABLE)
    return [f"hydra.searchpath=[{_value(f'file://{checked_folder(name)}', VARIABLE, VARIABLE)}]"] if name else []


def option() -> list[str]:
    """Returns the option that an advised command needs to find the same choices."""
    name = os.environ.get(VARIABLE)
    return ["--config-dir", name] if name else []


def _chosen(entries: Any, where: str) -> Iterator[tuple[str, str]]:
    for entry in entries if isinstance(entries, list) else [entries]:
        if entry == "_self_":
            continue
        key, choice = next(iter(entry.items())) if isinstance(entry, Mapping) and len(entry) == 1 else (str(entry), "")
        match = OVERRIDE.fullmatch(str(key))
        if match is None or not isinstance(choice, str):
            raise UserError(f"{where}: defaults: {entry}: write `- override /GROUP: CHOICE`, or GROUP: CHOICE outside")
        yield match[1], choice


def _flat(key: str, value: Any, where: str) -> Iterator[str]:
    if not KEY.fullmatch(key):
        raise UserError(f"{where}: {key!r} is no key; settings are KEY: VALUE, such as `seed: 2`")
    if isinstance(value, Mapping) and value and key in maps():
        try:
            yield f"{key}={json.dumps(_plain(value), ensure_ascii=False)}"
        except TypeError as problem:
            raise UserError(f"{where}: {key}: {problem}") from None
    elif isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _flat(f"{key}.{name}", item, where)
    else:
        yield f"{key}={_value(value, key, where)}"


def _plain(value: Any) -> Any:
    """Returns a value of a YAML file for JSON, its texts without quotes as what they are on the command line."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return read_plain(value) if isinstance(value, _Typed) and is_plain(value) else value


def _value(value: Any, key: str, where: str) -> str:
    """Returns `value` in Hydra's grammar of overrides; ${...} stays a reference."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{','.join(_value(item, key, where) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{name}:{_value(item, key, where)}' for name, item in value.items())}}}"
    if isinstance(value, _Typed) and is_plain(value):
        return str(value)
    if not isinstance(value, str | os.PathLike):
        raise UserError(f"{where}: {key}: {value!r} is no text, number, list or mapping of such")
    text = os.fspath(value)
    if not isinstance(text, str):
        raise UserError(f"{where}: {key}: {value!r} is not text")
    if PLAIN.fullmatch(text) and text.lower() not in ("null", "true", "false", "nan", "inf"):
        return text
    # a backslash is an escape only before a quote
    return "'" + re.sub(r"(\\*)('|$)", lambda match: match[1] * 2 + ("\\'" if match[2] else ""), text) + "'"
