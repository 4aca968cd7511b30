"""Explains mistakes in a command line, as Hydra's and OmegaConf's errors name neither the key nor the remedy.

Answers an unknown key with the setting that other tools call so (`other_names.yaml`), or with a similar one.
"""

import re
import shlex
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from dragoman.conf.groups import RECIPE, VARIABLE, choices, content, default_choices, sections, written_defaults
from dragoman.conf.words import KEY, read
from dragoman.model.errors import UserError, no_such_key, unknown

TARGETS = {"tgt", "trg", "target", "to", "l2"}  # names of a language, given its code
SIDES = TARGETS | {"src", "source", "from", "l1"}
CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]+)*")  # of a language, by its form
OPTIONS = ("cfg job", "resolve", "config FILE", "help", "help-all", "json")
LETTERS = {"-i": "input", "-o": "output", "-p": "port"}
LONGEST_NAME = 255  # bytes of a file's name; a longer one is an error of the system
OPENING = {"[": "]", "{": "}", "(": ")"}
SHORTEST = 4  # letters of a name that a similar one is sought for
NOTES = {  # ours has another unit, or another meaning than its name lets expect
    "train.max_steps": "in steps",
    "train.max_minutes": "in minutes",
    "loader.batch_tokens": "in tokens",
    "decode.batch_tokens": "in tokens",
    "train.optimizer.warmup_steps": "in steps",
    "loader.lanes": "batches of a step",
    "translate.to": "the target language",
}


@cache
def other_names() -> dict[str, tuple[str, ...]]:
    """Returns the name of other tools -> our settings."""
    table = content("shared/other_names")
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
    if last in SIDES and CODE.fullmatch(value) and "pair" in known_keys:
        settings = [f"pair=SOURCE-{value}" if last in TARGETS else f"pair={value}-TARGET"]
    elif names:
        settings = names
    elif not settings and name == last and len(last) >= SHORTEST:  # "all" is no "fall"
        by_end = {key.rpartition(".")[2]: key for key in reversed(known_keys)}
        settings = [by_end[near] for near in get_close_matches(last, by_end, n=1, cutoff=0.8)]
    if not settings:
        return None
    return _written(settings[0], value, last)


def _written(setting: str, value: str, name: str) -> str:
    """Returns `setting` with the value that was given to `name`; VALUE and a note if its unit is another."""
    if "=" in setting:
        return setting
    other_unit = setting in NOTES and (not setting.endswith(f".{name}") or name == "to")
    note = f" ({NOTES[setting]})" if other_unit else ""
    return shlex.quote(f"{setting}={'VALUE' if (note and name != 'to') or not value else value}") + note


def _suggest_in(key: str, value: str, file: str) -> str | None:
    """Returns what to write instead of an unknown key of a root: a key of the verb's own section goes before others."""
    name = key.lstrip("-+~")
    own = [section for section in content(file) if section != "defaults"]
    if len(own) == 1 and (meant := f"{own[0]}.{name.replace('-', '_')}") in written_defaults(file):
        return _written(meant, value, name)
    return suggest(key, value, written_defaults(file), choices(name) if name in sections(file) else ())


def refusal(problem: Exception, words: Sequence[str], file: str) -> UserError | None:
    """Returns the user's mistake behind an error of composing `words`; None if there is none."""
    import yaml
    from hydra.errors import HydraException, MissingConfigException
    from omegaconf.errors import ConfigAttributeError, ConfigKeyError, MissingMandatoryValue, OmegaConfBaseException

    if isinstance(problem, MissingConfigException) and problem.missing_cfg_file is not None:
        return _unknown_choice(str(problem.missing_cfg_file), problem.options or (), file)
    for word in words:
        if (said := _misspelt(word, file, words)) is not None:
            return UserError(said)
    cause = problem.__cause__
    if isinstance(cause, ConfigAttributeError | ConfigKeyError) and cause.parent_node is not None:
        keys = [str(key) for key in cause.parent_node if key not in ("hydra", "experiment")]
        return unknown_key(str(cause.full_key), keys, words, file)
    if isinstance(problem, MissingMandatoryValue):
        return UserError(f"{problem.full_key}=???: has no value; give one")
    if isinstance(problem, OmegaConfBaseException):
        only = words[0].partition("=")[0] if len(words) == 1 else ""  # of several words any can be meant
        return UserError(f"{problem.full_key or only}: {_first_line(problem)}".removeprefix(": "))
    if isinstance(problem, HydraException):
        return UserError(_first_line(problem))
    if isinstance(problem, yaml.YAMLError):
        return UserError(f"a configuration file is not YAML ({VARIABLE}): {' '.join(str(problem).split())}")
    return None


def unknown_key(key: str, keys: Iterable[str], words: Sequence[str] = (), file: str = RECIPE) -> UserError:
    """Returns the error for a dotted key that is not in `keys`, with our key for another tool's name."""
    section, _, last = key.rpartition(".")
    values = {name.lstrip("+"): value for name, _, value in (word.partition("=") for word in words)}
    full = next((name for name in values if name == key or name.startswith(f"{key}.")), key)
    if section and not (keys := list(keys)):
        return UserError(f"{key}: no such key; the section {section} is empty, and +{key}=VALUE adds to it")
    near = no_such_key(section, last, keys)
    if section and "Did you mean" in str(near) and last not in other_names():
        return near
    meant = _suggest_in(full, values.get(full, ""), file)
    if meant is not None and not meant.startswith(f"{full}="):
        return UserError(f"{full}: no such key; write {meant}")
    return near


def misspelt_option(file: str, option: str, value: str) -> str:
    """Returns the message about an unknown option; one of a letter may stand for a key of the verb's own section."""
    name = option.lstrip("-")
    near = next((known for known in OPTIONS if get_close_matches(name, [known.partition(" ")[0]], cutoff=0.85)), None)
    meant = f"--{near}" if near else _suggest_in(LETTERS.get(option, option), value, file)
    return f"{option}: no such option; " + (f"write {meant}" if meant else "settings are key=value")


def _is_file(word: str) -> bool:
    return len(word) < LONGEST_NAME and Path(word).is_file()


def _reading(file: str, words: Sequence[str]) -> str:
    """Returns the settings that read a file; a second file of texts among the words is the other side of the pairs."""
    if file.endswith((".yaml", ".yml")):
        return f"--config {file}"
    sides = [word for word in words if _is_file(word) and not word.endswith((".yaml", ".yml"))]
    if len(sides) == 2:
        return f"corpus=moses corpus.train.source={sides[0]} corpus.train.target={sides[1]}"
    return f"corpus=tsv corpus.train.file={file}"


def _misspelt(word: str, file: str, words: Sequence[str]) -> str | None:
    """Returns what is wrong with the form of a word of `words`; None if it is right."""
    key, equals, value = word.partition("=")
    bare = key.lstrip("+~")
    if not equals and not key.startswith("~"):
        if _is_file(word):
            return f"{word}: is a file, and settings are written KEY=VALUE; write {_reading(word, words)}"
        name, _, value_given = re.sub(r"[:\s]+", ":", word).partition(":")
        if name in sections(file):
            return f"{word}: settings are written KEY=VALUE; a key of the section {name} is {name}.KEY=VALUE"
        is_key = name in written_defaults(file)
        meant = f"{name}={value_given or 'VALUE'}" if is_key else _suggest_in(name, value_given, file)
        return f"{word}: settings are written KEY=VALUE" + (f"; write {meant}" if meant else "")
    if not bare:
        return f"{word}: no key stands before the equals sign; settings are written KEY=VALUE"
    if not KEY.fullmatch(bare) or ".." in bare or bare.endswith("."):
        return f"{word}: {bare!r} is no key; a key is made of names and dots, such as train.max_steps"
    group = bare.partition("@")[0]
    if group in default_choices(file) and equals and not key.startswith("~"):
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
    if (override := read(word)) is None:
        for opening, closing in OPENING.items():
            if value.count(opening) > value.count(closing):
                return (
                    f"{word[:200]}: {opening} is not closed by {closing}; text with brackets is quoted, {quoted[:200]}"
                )
        if value[:1] in ("'", '"') and value.count(value[0]) % 2:
            return f"{word}: the quote {value[0]} is not closed"
        return f"{word}: the value cannot be read; text is quoted, {quoted}"
    if not override.is_sweep_override():
        return None
    if re.fullmatch(r"0,\d+", value):
        return f"{word}: a fraction has a point, {key}={value.replace(',', '.')}"
    if override.value_type == ValueType.SIMPLE_CHOICE_SWEEP:
        return f"{word}: a list stands in brackets, '{key}=[{value}]'; text with a comma in quotes, {quoted}"
    return f"{word}: several values; `dragoman sweep` tries several"


def _unknown_choice(path: str, options: Iterable[str], file: str) -> UserError:
    group = next((group for group in default_choices(file) if path.startswith(f"{group}/")), path.rpartition("/")[0])
    choice = path.removeprefix(f"{group}/")
    if group == "corpus" and Path(choice).is_file():
        return UserError(f"corpus={choice}: is a file; write corpus=tsv corpus.train.file={choice}")
    return unknown(group, choice, choices(group) or options)


def _first_line(problem: Exception) -> str:
    line = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
    return re.sub(r"^\w+(Exception|Error)(: | raised while resolving interpolation: )", "", line).strip('"')
