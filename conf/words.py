"""Words of the command line in Hydra's grammar of overrides: what is a setting, and what stands in quotes."""

import contextlib
import dataclasses
import json
import re
import types
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from dragoman.conf.groups import choices, content, experiment_keys, merge_choice, roots, written_defaults
from dragoman.model.errors import UserError

KEY = re.compile(r"(?:\+\+?|~)?[A-Za-z_][\w./@:-]*")
PLAIN = re.compile(r"[\w./:@%*+-]*", re.ASCII)  # a value that Hydra reads without quotes
CONSTANTS = ("null", "true", "false")


def is_setting(word: str) -> bool:
    """Returns True for KEY=VALUE and ~KEY, False for text that may contain an equals sign."""
    key, equals, _ = word.partition("=")
    return bool(KEY.fullmatch(key)) and (bool(equals) or word.startswith("~"))


def chosen_keys(words: Sequence[str]) -> set[str]:
    """Returns the dotted keys and the groups that the words set, and those of the experiment that they name."""
    settings = [word.lstrip("+").partition("=") for word in words if "=" in word]
    chosen = {key for key, _, _ in settings}
    return chosen.union(*(experiment_keys(value) for key, _, value in settings if key == "experiment"))


def quote_plain(words: Sequence[str]) -> list[str]:
    """Returns the words, with quotes around values that are plain text but no settings in Hydra's grammar.

    `corpus.train.source=файл.en`, `a@b#c.en` and `s3://bucket/x?y=z` are such values. Values that begin with a quote or
    a bracket, or have a comma, `${` or a backslash, stay: they are mistakes or lists.
    """
    return [_quote(word) if is_setting(word) and read(word) is None else word for word in words]


def _quote(word: str) -> str:
    key, equals, value = word.partition("=")
    plain = equals and value and value[0] not in "'\"[{(=" and not any(mark in value for mark in (",", "${", "\\", '"'))
    if not plain or re.search(r"\w\(", value):
        return word
    return f'{key}="{value}"'


def quote_text(word: str, key: str) -> str:
    """Returns `KEY='...'` for one word of the command line, which begins with `key`, such as "generate.prompt=".

    So Hydra parses no commas, colons and brackets in it. A text that is quoted already, or null, is unchanged.
    """
    value = word.removeprefix(key)
    if value in ("", "null") or re.fullmatch(r"'.*'|\".*\"", value, re.DOTALL):
        return word
    # Hydra treats a backslash as an escape only before a quote, and OmegaConf before ${
    escaped = re.sub(r"(\\*)('|$)", lambda match: match[1] * 2 + ("\\'" if match[2] else ""), value)
    return f"{key}'{escaped.replace('${', chr(92) + '${')}'"


def keep_text(word: str, root: type[Any]) -> str:
    """Returns the word with quotes around values of a text setting, which stay as typed: `name=7e12`, `name=0123`."""
    key, equals, value = word.partition("=")
    if not equals or not takes_text(root, key.lstrip("+")):
        return word
    if value.startswith("[") and value.endswith("]"):
        return f"{key}=[{','.join(map(_kept, value[1:-1].split(',')))}]"
    return f"{key}={_kept(value)}"


def _kept(value: str) -> str:
    return f"'{value}'" if value and PLAIN.fullmatch(value) and value.lower() not in CONSTANTS else value


def takes_text(root: Any, key: str) -> bool:
    """Returns True if the dotted key of a root's dataclass has a text, or texts, and no number."""
    hint = root
    for name in key.split("."):
        members = _members(hint)
        section = next((part for part in members if dataclasses.is_dataclass(part)), None)
        others = next((get_args(part)[1] for part in members if get_origin(part) is dict), None)
        hint = others if section is None else get_type_hints(section).get(name)
    return _is_text(hint)


def _is_text(hint: Any) -> bool:
    members = _members(hint)
    return bool(members) and all(
        member is str
        or (get_origin(member) is Literal and all(isinstance(choice, str) for choice in get_args(member)))
        or (get_origin(member) is list and _is_text(get_args(member)[0]))
        for member in members
    )


def _members(hint: Any) -> list[Any]:
    """Returns what a key may be, beside null."""
    if get_origin(hint) is Annotated:
        return _members(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return [part for member in get_args(hint) for part in _members(member) if part is not types.NoneType]
    return [hint]


def json_map(word: str, root: str) -> tuple[str, dict[str, Any] | None]:
    """Returns the key and the value of a word `KEY={"NAME": VALUE, ...}`, which Hydra cannot read; None: another word.

    KEY is a setting whose keys are the user's own, such as loader.mix.weights.
    """
    key, _, text = word.partition("=")
    if text.startswith('{"') and "${" not in text and key in maps(root):
        with contextlib.suppress(ValueError):
            return key, json.loads(text)
    return key, None


def maps(*names: str) -> set[str]:
    """Returns the settings of these roots, or of all, whose keys are the user's own: empty or null by default."""
    defaults = [item for root in names or roots() for item in written_defaults(root).items()]
    return {key for key, value in defaults if value is None or value == {}}


def is_plain(text: str) -> bool:
    """Returns True for a number, a constant or a word, which need no quotes."""
    return bool(PLAIN.fullmatch(text))


def read_plain(text: str) -> Any:
    """Returns the number, constant or word that a plain text is."""
    override = read(f"value={text}")
    return text if override is None else override.value()


def read(word: str) -> Any:
    """Returns what Hydra reads in a setting; None if it cannot read it."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    with contextlib.suppress(HydraException, ValueError, TypeError, RecursionError):
        return OverridesParser.create().parse_override(word)
    return None


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
