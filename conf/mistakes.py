"""Explains mistakes in a command line, as Hydra's and OmegaConf's errors name neither the key nor the remedy.

Answers an unknown key with the setting that other tools call so (`other_names.yaml`), or with a similar one.
"""

import contextlib
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from dragoman.conf.groups import VARIABLE, choices, content, merge_choice, sections, written_defaults
from dragoman.model.errors import UserError, unknown

SIDES = {"src", "tgt", "trg", "source", "target", "from", "to", "l1", "l2"}  # names of a language, given its code
CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]+)*")  # of a language, by its form
SHORTEST = 4  # letters of a name that a similar one is sought for
NOTES = {  # ours has another unit
    "train.max_steps": "in steps",
    "train.max_minutes": "in minutes",
    "loader.batch_tokens": "in tokens",
    "decode.batch_tokens": "in tokens",
    "train.optimizer.warmup_steps": "in steps",
    "loader.lanes": "batches of a step",
}


@cache
def other_names() -> dict[str, tuple[str, ...]]:
    """Returns the name of other tools -> our settings."""
    table = content("other_names")
    return {name: tuple(setting.split(" or ")) for setting, names in table.items() for name in names}


def suggest(key: str, value: str, keys: Iterable[str], choices: Iterable[str] = ()) -> str | None:
    """Returns what to write instead of the unknown `key`; None if none of our dotted `keys` is similar.

    `choices` are those of the group that has the key's name. Only sections of `keys` are suggested.
    """
    name = key.lstrip("-+~").lower().replace("-", "_")
    last = name.rpartition(".")[2].rpartition("/")[2]
    known_keys = list(keys)
    if name in known_keys or value in choices:  # typed as an option
        return _written(name, value, last)
    sections = {key.partition(".")[0] for key in known_keys}
    settings = [key for key in known_keys if key.endswith(f".{name}")]
    names = [other_name for other_name in other_names().get(last, ()) if re.split("[.=]", other_name)[0] in sections]
    if last in SIDES and CODE.fullmatch(value):
        settings = list(other_names()["source_lang"])
    elif names:
        settings = names
    elif not settings and name == last and len(last) >= SHORTEST:  # "all" is no "fall"
        by_end = {key.rpartition(".")[2]: key for key in reversed(known_keys)}
        settings = [by_end[near] for near in get_close_matches(last, by_end, n=1, cutoff=0.8)]
    if not settings:
        return None
    return " or ".join(_written(setting, value, last) for setting in settings[:3])


def _written(setting: str, value: str, name: str) -> str:
    if "=" in setting:
        return setting
    other_unit = setting in NOTES and not setting.endswith(f".{name}")
    note = f" ({NOTES[setting]})" if other_unit else ""
    return shlex.quote(f"{setting}={'VALUE' if note or not value else value}") + note


KEY = re.compile(r"(?:\+\+?|~)?[A-Za-z_][\w./@:-]*")
LONGEST_NAME = 255  # bytes of a file's name; a longer one is an error of the system
_sections = ContextVar[frozenset[str] | None]("sections", default=None)  # that the running command reads; None: all
OPENING = {"[": "]", "{": "}", "(": ")"}


@contextlib.contextmanager
def suggesting_of(sections: Iterable[str]) -> Iterator[None]:
    """Suggests within the block only keys of these sections, and those that stand in none."""
    before = _sections.set(frozenset(sections))
    try:
        yield
    finally:
        _sections.reset(before)


def _suggest(key: str, value: str) -> str | None:
    """Returns what to write instead of an unknown key."""
    read, name = _sections.get(), key.lstrip("-+~")
    keys = [
        default
        for default in written_defaults()
        if read is None or "." not in default or default.partition(".")[0] in read
    ]
    return suggest(key, value, keys, choices(name) if name in sections() and (read is None or name in read) else ())


def is_setting(word: str) -> bool:
    """Returns True for KEY=VALUE and ~KEY, False for text that may contain an equals sign."""
    key, equals, _ = word.partition("=")
    return bool(KEY.fullmatch(key)) and (bool(equals) or word.startswith("~"))


def quote_plain(words: Sequence[str]) -> list[str]:
    """Returns the words, with quotes around values that are plain text but no settings in Hydra's grammar.

    `corpus.train.source=файл.en`, `a@b#c.en` and `s3://bucket/x?y=z` are such values. Values that begin with a quote or
    a bracket, or have a comma, `${` or a backslash, stay: they are mistakes or lists.
    """
    return [_quote(word) if is_setting(word) and _read(word) is None else word for word in words]


def refusal(problem: Exception, words: Sequence[str]) -> UserError | None:
    """Returns the user's mistake behind an error of composing `words`; None if there is none."""
    import yaml
    from hydra.errors import HydraException, MissingConfigException
    from omegaconf.errors import ConfigAttributeError, ConfigKeyError, MissingMandatoryValue, OmegaConfBaseException

    if isinstance(problem, MissingConfigException) and problem.missing_cfg_file is not None:
        return _unknown_choice(str(problem.missing_cfg_file), problem.options or ())
    for word in words:
        if (said := _misspelt(word)) is not None:
            return UserError(said)
    cause = problem.__cause__
    if isinstance(cause, ConfigAttributeError | ConfigKeyError) and cause.parent_node is not None:
        keys = [str(key) for key in cause.parent_node if key not in ("hydra", "experiment")]
        return unknown_key(str(cause.full_key), keys, words)
    if isinstance(problem, MissingMandatoryValue):
        return UserError(f"{problem.full_key}=???: has no value; give one")
    if isinstance(problem, OmegaConfBaseException):
        return UserError(f"{problem.full_key or _key_of(words)}: {_first_line(problem)}".removeprefix(": "))
    if isinstance(problem, HydraException):
        return UserError(_first_line(problem))
    if isinstance(problem, yaml.YAMLError):
        return UserError(f"a configuration file is not YAML ({VARIABLE}): {' '.join(str(problem).split())}")
    return None


def unknown_key(key: str, keys: Iterable[str], words: Sequence[str] = ()) -> UserError:
    """Returns the error for a dotted key that is not in `keys`, with our key for another tool's name."""
    section, _, last = key.rpartition(".")
    values = {name.lstrip("+"): value for name, _, value in (word.partition("=") for word in words)}
    full = next((name for name in values if name == key or name.startswith(f"{key}.")), key)
    if section and not (keys := list(keys)):
        return UserError(f"{key}: no such key; the section {section} is empty, and +{key}=VALUE adds to it")
    near = unknown(f"{section}: unknown key" if section else "unknown key", last, keys)
    if section and "Did you mean" in str(near):
        return near
    meant = _suggest(full, values.get(full, ""))
    if meant is not None and not meant.startswith(f"{full}="):
        return UserError(f"{full}: no such key; write {meant}")
    return near


def misspelt_option(option: str, value: str) -> str:
    """Returns the message about an unknown option."""
    meant = _suggest(option, value)
    return f"{option}: no such option; " + (f"write {meant}" if meant else "settings are key=value")


def refuse_hydras(words: Iterable[str]) -> None:
    """Refuses settings of Hydra itself, which would be read and have no effect."""
    for word in words:
        if re.match(r"[+~]*hydra([./=@]|$)", word):
            raise UserError(f"{word}: Hydra's own settings have no effect here; a verb's are shown by --help")


def refuse_unfitting(words: Sequence[str]) -> None:
    """Refuses a model for which an experiment has settings that it does not know."""
    values = {key: value for key, _, value in (word.partition("=") for word in words)}
    experiment, model = values.get("experiment", ""), values.get("model", "")
    if experiment not in choices("experiment") or model not in choices("model"):
        return
    choice = merge_choice("model", model)
    for key in content(f"experiment/{experiment}").get("model", {}):
        if key not in choice and f"~model.{key}" not in values:
            raise UserError(
                f"model={model}: experiment={experiment} sets model.{key}, which this network has not; leave that out "
                f"with ~model.{key}, or choose another experiment"
            )


def _misspelt(word: str) -> str | None:
    """Returns what is wrong with the form of a word; None if it is right."""
    key, equals, value = word.partition("=")
    bare = key.lstrip("+~")
    if not equals and not key.startswith("~"):
        if len(word) < LONGEST_NAME and Path(word).is_file():
            reads = f"--config {word}" if word.endswith((".yaml", ".yml")) else f"corpus=tsv corpus.train.file={word}"
            return f"{word}: is a file, and settings are written KEY=VALUE; write {reads}"
        name, _, value_given = re.sub(r"[:\s]+", ":", word).partition(":")
        if name in sections() and choices(name):
            return f"{word}: settings are written KEY=VALUE; a key of the section {name} is {name}.KEY=VALUE"
        is_key = name in written_defaults()
        meant = f"{name}={value_given or 'VALUE'}" if is_key else _suggest(name, value_given)
        return f"{word}: settings are written KEY=VALUE" + (f"; write {meant}" if meant else "")
    if not bare:
        return f"{word}: no key stands before the equals sign; settings are written KEY=VALUE"
    if not KEY.fullmatch(bare) or ".." in bare or bare.endswith("."):
        return f"{word}: {bare!r} is no key; a key is made of names and dots, such as train.max_steps"
    group = bare.partition("@")[0]
    if group in sections() | {"experiment"} and choices(group) and equals and not key.startswith("~"):
        if key.startswith("+"):
            return f"{word}: a choice is written without a plus, {word.lstrip('+')}"
        if "@" in bare:
            return f"{word}: a choice is written {group}=CHOICE; choices: {', '.join(choices(group))}"
        if not re.fullmatch(r"[A-Za-z_][\w./-]*", value.strip("'\"")) or value in ("null", "true", "false"):
            return (
                f"{word}: {group} is a section; its choices are {', '.join(choices(group))}, and a key of it is "
                f"written {group}.KEY=VALUE"
            )
    return _wrong_value(key, value) if equals else None


def _wrong_value(key: str, value: str) -> str | None:
    """Returns what is wrong with the form of a value; None if it can be read."""
    from hydra.core.override_parser.types import ValueType

    word = f"{key}={value}"
    quoted = f"'{key}=\"{value}\"'"
    if value.startswith("="):
        return f"{word}: one equals sign stands between key and value, {key}={value.lstrip('=')}"
    if (read := _read(word)) is None:
        for opening, closing in OPENING.items():
            if value.count(opening) > value.count(closing):
                return (
                    f"{word[:200]}: {opening} is not closed by {closing}; text with brackets is quoted, {quoted[:200]}"
                )
        if value[:1] in ("'", '"') and value.count(value[0]) % 2:
            return f"{word}: the quote {value[0]} is not closed"
        return f"{word}: the value cannot be read; text is quoted, {quoted}"
    if not read.is_sweep_override():
        return None
    if re.fullmatch(r"0,\d+", value):
        return f"{word}: a fraction has a point, {key}={value.replace(',', '.')}"
    if read.value_type == ValueType.SIMPLE_CHOICE_SWEEP:
        return (
            f"{word}: a list stands in brackets, '{key}=[{value}]'; text with a comma in quotes, {quoted}; "
            "--multirun runs once a value"
        )
    return f"{word}: several values; --multirun runs once a value"


def _unknown_choice(path: str, options: Iterable[str]) -> UserError:
    group = next(
        (section for section in sections() | {"experiment"} if path.startswith(f"{section}/")), path.rpartition("/")[0]
    )
    choice = path.removeprefix(f"{group}/")
    return unknown(group, choice, choices(group) or options)


def _read(word: str) -> Any:
    """Returns what Hydra reads in a setting; None if it cannot read it."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    with contextlib.suppress(HydraException, ValueError, TypeError, RecursionError):
        return OverridesParser.create().parse_override(word)
    return None


def _quote(word: str) -> str:
    key, equals, value = word.partition("=")
    plain = equals and value and value[0] not in "'\"[{(=" and not any(mark in value for mark in (",", "${", "\\", '"'))
    if not plain or re.search(r"\w\(", value):
        return word
    return f'{key}="{value}"'


def _first_line(problem: Exception) -> str:
    line = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
    return re.sub(r"^\w+(Exception|Error)(: | raised while resolving interpolation: )", "", line).strip('"')


def _key_of(words: Sequence[str]) -> str:
    """Returns the key of the one word that can be meant; empty if there are several."""
    return words[0].partition("=")[0] if len(words) == 1 else ""
