"""Answers an unknown key with the setting that other tools call so (`other_names.yaml`), or with a similar one."""

import re
import shlex
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache

from dragoman.conf.groups import content

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
