"""The files of this folder as written, for callers that show or search them without Hydra's slow composing.

A root (`recipe.yaml`, `translate.yaml` ...) is what a verb, or a family of verbs, composes. A folder is a group with a
file a choice; `shared/` has what several roots are made of.

A folder that DRAGOMAN_CONF names has more choices of the same groups.
"""

import copy
import os
import re
import textwrap
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from dragoman.model.schema import flat

FOLDER = Path(__file__).resolve().parent
RECIPE = "recipe"  # the root of the verbs from a corpus to a champion
VARIABLE = "DRAGOMAN_CONF"  # the variable that names a user's own folder
OVERRIDE = re.compile(r"override /?([\w/]+)")  # in a list of defaults


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # the fast one, if it was built
    """Reads 1e-3 as a number, as Hydra does."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)
OF_TRAINING = ("model", "models", "train", "loader", "vectors", "compare")
UNREAD = {  # verb -> sections that it does not read
    "shard": (*OF_TRAINING, "decode", "alignment", "evaluate", "promote", "registry"),
    "train": ("models", "compare", "promote", "shards"),
    "evaluate": (*OF_TRAINING, "promote", "shards"),
    "promote": (*OF_TRAINING, "cluster", "alignment", "name", "seed", "shards"),
}
NAMING = ("corpus.name", "corpus.format", "tokenizer.name", "tokenizer.type")  # keys that say which shards


def reads(verb: str, key: str) -> bool:
    """Returns True if a key, dotted or of a choice, has a meaning for a verb."""
    section, dot, _ = key.partition(".")
    if verb != "shard" and dot and section in ("corpus", "tokenizer"):
        return key in NAMING  # shards that are there have what the others say
    return re.split("[@/]", section)[0] not in UNREAD.get(verb, ())


def content(name: str) -> dict[str, Any]:
    """Returns the plain values of one file, a root or GROUP/CHOICE, with its list of defaults."""
    return copy.deepcopy(_parse(text(name)))


@lru_cache(maxsize=512)
def _parse(text: str) -> Any:
    return yaml.load(text, _Loader)  # a safe one


def text(name: str) -> str:
    """Returns the text of the file of a root or GROUP/CHOICE."""
    paths = [folder / f"{name}.yaml" for folder in folders()]
    return next((path for path in paths if path.is_file()), paths[0]).read_text(encoding="utf-8")


def folders() -> list[Path]:
    """Returns the folders of choices: ours, then the user's own."""
    own = os.environ.get(VARIABLE)
    return [FOLDER, Path(own).expanduser().absolute()] if own else [FOLDER]


def roots() -> list[str]:
    """Returns the names of the roots."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def files(root: str) -> list[str]:
    """Returns the files that a root is made of, itself included, beside its choices; later ones win."""
    entries = [entry for entry in content(root)["defaults"] if isinstance(entry, str)] if _has_defaults(root) else []
    names = [name for entry in entries if entry != "_self_" for name in files(entry)]
    return [*names, root]


def _has_defaults(name: str) -> bool:
    return "defaults" in _parse(text(name))


def default_choices(root: str = RECIPE) -> dict[str, str]:
    """Returns group -> the root's choice."""
    entries = (entry for name in files(root) for entry in content(name).get("defaults", ()) if isinstance(entry, dict))
    return {group: choice for entry in entries for group, choice in entry.items() if not OVERRIDE.fullmatch(group)}


@lru_cache(maxsize=64)
def _written(root: str, _folders: tuple[Path, ...]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in files(root):
        values = over(values, {key: value for key, value in content(name).items() if key != "defaults"})
    chosen = {group: merge_choice(group, choice) for group, choice in default_choices(root).items() if choice}
    return values | chosen


def written(root: str = RECIPE) -> dict[str, Any]:
    """Returns the values of a root without overrides; interpolations stay as written."""
    return _written(root, tuple(folders()))


def written_defaults(root: str = RECIPE) -> dict[str, Any]:
    """Returns dotted key -> its value without overrides; interpolations stay as written."""
    return dict(flat(written(root)))


def sections(root: str = RECIPE) -> set[str]:
    """Returns the top-level keys that the verbs of a root compose."""
    return set(written(root))


def choices(group: str) -> list[str]:
    """Returns the names of a group's files."""
    return sorted({path.stem for folder in folders() for path in (folder / group).glob("*.yaml")})


def beneath(group: str, choice: str) -> str | None:
    """Returns the choice of the same group that this one is a variant of."""
    entries = content(f"{group}/{choice}").get("defaults", ())
    return next((name for name in entries if isinstance(name, str) and name != "_self_"), None)


def experiment_keys(name: str) -> set[str]:
    """Returns the dotted keys that an experiment sets, and the groups of which it chooses a file."""
    if name not in choices("experiment"):
        return set()
    values = content(f"experiment/{name}")
    entries = [entry for entry in values.pop("defaults", ()) if isinstance(entry, dict)]
    chosen = {OVERRIDE.fullmatch(key)[1] for entry in entries for key in entry}  # type: ignore[index]
    base = beneath("experiment", name)
    return chosen | {key for key, _ in flat(values)} | (experiment_keys(base) if base else set())


def merge_choice(group: str, choice: str) -> dict[str, Any]:
    """Returns the values of a choice merged with those it is a variant of; interpolations stay as written."""
    values = content(f"{group}/{choice}")
    base = beneath(group, choice)
    values.pop("defaults", None)
    return over(merge_choice(group, base), values) if base else values


def section_page(root: str, section: str) -> str:
    """Returns a section as its files show it, with its comments: the choice of a group, or what a root's file holds."""
    if section in (defaults := default_choices(root)):
        return page(section, defaults[section])
    name = next(name for name in reversed(files(root)) if section in content(name))
    whole = text(name)
    keys = [(key.value, key.start_mark.index) for key, _ in getattr(yaml.compose(whole), "value", ())]
    places = dict(keys)
    start = whole.index("\n", places[section]) + 1
    end = min((place for place in places.values() if place > start), default=len(whole))
    return textwrap.dedent(whole[start:end]).strip() + "\n"


def page(group: str, choice: str) -> str:
    """Returns a choice's file, and below it those that it is a variant of."""
    base = beneath(group, choice)
    below = f"\n# {base}, of which the values above are a variant:\n{page(group, base)}" if base else ""
    return text(f"{group}/{choice}") + below


def over(below: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Merges nested `values` over `below`."""
    merged = dict(below)
    for key, value in values.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = over(merged[key], value) if both else value
    return merged
