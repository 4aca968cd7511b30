"""A line's file: its steps, their words, and what each leaves for others.

    vars:
      corpus: [corpus=phrasebook, pair=en-de]
    steps:
      shards: {shard: ["${vars.corpus}"]}
      teacher: {train: ["${vars.corpus}", "paths.shards=${shards.shards}"]}

A step is a command with its words. `${STEP.OUTPUT}` is what another step leaves: `shards` of shard, `run` and `bundle`
of train, `folder` and `pairs` of synthesize, `folder` of unpack. `${vars.NAME}` is a word, or a list of words where it
stands alone. Other `${...}` are Hydra's. The line itself names what a step makes.
"""

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import yaml

from dragoman.model.errors import UserError, unknown
from dragoman.model.names import check_name
from dragoman.model.storage.places import is_address
from dragoman.services.version import version

RECIPES = Path(__file__).parent / "recipes"
REFERENCE = re.compile(r"\$\{([\w-]+)\.(\w+)\}")
# Command -> the words by which the line names what a step makes, and the outputs that others may refer to. {home} is
# paths.root, {name} the step's name with its address.
MAKES: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "shard": (("paths.shards={home}/shards/{name}",), {"shards": "{home}/shards/{name}"}),
    "train": (("name={name}",), {"run": "{name}", "bundle": "{home}/runs/{name}/bundle"}),
    "synthesize": (
        ("synthesize.output={home}/corpora/{name}",),
        {"folder": "{home}/corpora/{name}", "pairs": "{home}/corpora/{name}/pairs.jsonl"},
    ),
    "unpack": (("unpack.output={home}/corpora/{name}",), {"folder": "{home}/corpora/{name}"}),
    **dict.fromkeys(("evaluate", "compare", "promote"), ((), {})),
}
# Command -> the file that stands for what it made: it names the sha256 of the rest, or is it.
WITNESSES = {
    "shard": ("{home}/shards/{name}/manifest.json",),
    "train": ("{home}/runs/{name}/bundle/config.json",),
    "synthesize": ("{home}/corpora/{name}/record.json", "{home}/corpora/{name}/pairs.jsonl"),
}
Written = tuple[str, list[str], list[str]]  # verb, words, `after`
ADDRESS = 10  # hexadecimal digits


class Loader(yaml.SafeLoader):
    """Refuses a key that stands twice: YAML's own loader takes the last one, and a step would be lost."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for twice in (key for place, key in enumerate(keys) if key in keys[:place] and key != "<<"):
            raise yaml.constructor.ConstructorError(None, None, f"{twice} stands twice", node.start_mark)
        return super().construct_mapping(node, deep)


@dataclass(frozen=True)
class Step:
    """A command of the line, its references filled in."""

    name: str
    verb: str
    words: tuple[str, ...]  # as the command gets them
    after: tuple[str, ...]  # the steps that it needs
    address: str  # of the verb, its words, the files that they name, and the needed steps
    outputs: Mapping[str, str]
    witnesses: tuple[Path, ...]

    @property
    def label(self) -> str:
        """Returns the name of what it makes: the same step of the same inputs has the same in every line."""
        return f"{self.name}-{self.address}"


def find_recipe(name: str) -> Path:
    """Returns a file, or the recipe of that name that Dragoman brings."""
    path, own = Path(name).expanduser(), RECIPES / f"{name}.yaml"
    if path.is_file():
        return path
    if own.is_file():
        return own
    if path.suffix in (".yaml", ".yml") or "/" in name:
        raise UserError(f"{name}: there is no such file")
    raise unknown("line", name, sorted(path.stem for path in RECIPES.glob("*.yaml")))


def read_line(path: Path, home: str, changes: Mapping[str, Any], digest: Callable[[Path], str]) -> list[Step]:
    """Returns the steps of a file, each after those that it needs.

    Args:
        home: `paths.root`, where what the steps make will lie.
        changes: variables that replace those of the file.
        digest: of a file or folder that a word names.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        raise UserError(f"{path}: cannot be read ({' '.join(str(problem).split())})") from None
    if (
        not isinstance(content, dict)
        or not set(content) <= {"vars", "steps"}
        or not isinstance(content.get("steps"), dict)
    ):
        raise UserError(f"{path}: a line has `steps`, a command and its words each, and perhaps `vars`")
    variables, steps = dict(content.get("vars") or {}), content["steps"]
    for key in changes:
        if key not in variables:
            raise unknown(f"{path}: vars", key, variables)
    variables |= changes
    missing = [key for key, value in variables.items() if value is None]
    if missing:
        raise UserError(f"{path}: vars.{missing[0]} has no value: vars.{missing[0]}=...")
    if not steps:
        raise UserError(f"{path}: steps is empty")
    written = {str(name): _written(path, str(name), step, variables) for name, step in steps.items()}
    needs = {name: _needs(path, name, words, after, written) for name, (_, words, after) in written.items()}
    try:
        order = list(TopologicalSorter(needs).static_order())
    except CycleError as problem:
        raise UserError(f"{path}: the steps {' -> '.join(reversed(problem.args[1]))} need each other") from None
    by_name: dict[str, Step] = {}
    for name in order:
        verb, words, _ = written[name]
        by_name[name] = _filled(path, name, verb, words, [by_name[need] for need in needs[name]], home, digest)
    return list(by_name.values())


def _written(path: Path, name: str, step: Any, variables: Mapping[str, Any]) -> Written:
    """Returns a step's verb, its words with the variables filled in, and the steps that it names under `after`."""
    check_name(f"{path}: step", name)
    verbs = [key for key in step if key != "after"] if isinstance(step, dict) else []
    if len(verbs) != 1:
        raise UserError(
            f"{path}: step {name}: give one command with its words, such as train: [model=transformer_tiny]"
        )
    verb, words_written, after = str(verbs[0]), step[verbs[0]] or [], step.get("after") or []
    if verb not in MAKES:
        raise unknown(f"{path}: step {name}: command", verb, MAKES)
    if not isinstance(words_written, list) or not isinstance(after, list):
        raise UserError(f"{path}: step {name}: words and `after` are lists")
    words: list[str] = []
    for word in map(str, words_written):
        alone = REFERENCE.fullmatch(word)
        if alone and alone[1] == "vars" and isinstance(variables.get(alone[2]), list):
            words += map(str, variables[alone[2]])
        else:
            words.append(REFERENCE.sub(lambda match: _variable(path, name, match, variables), word))
    own = {"name", *(key_written.partition("=")[0] for key_written in MAKES[verb][0])} if MAKES[verb][0] else set()
    for word in words:
        if word.lstrip("+").partition("=")[0] in own:
            raise UserError(f"{path}: step {name}: {word}: the line names what a step makes; leave it out")
    return verb, words, [str(name_before) for name_before in after]


def _variable(path: Path, name: str, match: re.Match[str], variables: Mapping[str, Any]) -> str:
    if match[1] != "vars":
        return match[0]
    if match[2] not in variables:
        raise unknown(f"{path}: step {name}: vars", match[2], variables)
    value = variables[match[2]]
    if isinstance(value, list):
        raise UserError(f"{path}: step {name}: vars.{match[2]} is a list of words, which stands alone")
    return str(value)


def _needs(
    path: Path, name: str, words: Sequence[str], after: Sequence[str], written: Mapping[str, Written]
) -> list[str]:
    """Returns the steps that a step refers to or names; of `paths.*` and the like, which are Hydra's, none."""
    for name_before in after:
        if name_before not in written:
            raise unknown(f"{path}: step {name}: after", name_before, written)
    needed = [reference for word in words for reference in REFERENCE.findall(word) if reference[0] in written]
    for step, output in needed:
        if output not in (outputs := MAKES[written[step][0]][1]):
            raise unknown(f"{path}: step {name}: ${{{step}.{output}}}: output", output, outputs)
    return list(dict.fromkeys([*(step for step, _ in needed), *after]))


def _filled(
    path: Path,
    name: str,
    verb: str,
    words: Sequence[str],
    needed: Sequence[Step],
    home: str,
    digest: Callable[[Path], str],
) -> Step:
    outputs = {(step.name, output): value for step in needed for output, value in step.outputs.items()}
    filled = [REFERENCE.sub(lambda match: outputs.get((match[1], match[2]), match[0]), word) for word in words]
    made = tuple(value for step in needed for value in step.outputs.values())
    read = {
        value: digest(Path(value))
        for word in filled
        for value in _values(word)
        if _is_input(word.partition("=")[0], value, home, made)
    }
    own = [word.replace(home, "") for word in filled]  # the same in another home
    facts = [verb, own, sorted(read.values()), sorted(step.label for step in needed), version()]
    address = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:ADDRESS]
    makes, gives = MAKES[verb]
    fill = {"home": home, "name": f"{name}-{address}"}
    return Step(
        name,
        verb,
        (*filled, *(word.format(**fill) for word in makes)),
        tuple(step.name for step in needed),
        address,
        {key: value.format(**fill) for key, value in gives.items()},
        tuple(Path(pattern.format(**fill)) for pattern in WITNESSES.get(verb, ())),
    )


def _values(word: str) -> list[str]:
    """Returns the value of a word, or those of a list."""
    return [part.strip("'\" ") for part in re.split(r"[\[\],]", word.partition("=")[2]) if part]


def _is_input(key: str, value: str, home: str, made: Sequence[str]) -> bool:
    """Returns True for a file or folder that no needed step makes; of the home's folders, which runs change, for none.

    A folder without a slash or dot in its name must be the value of a section's key: `corpus=tsv` names no folder.
    """
    if is_address(value) or any(value == folder or value.startswith(f"{folder}/") for folder in made):
        return False
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # text that can be no path
        path = Path(value).expanduser()
        named = "." in key or "/" in value or "." in value
        return path.is_file() or (named and path.is_dir() and not path.absolute().is_relative_to(home))
    return False
