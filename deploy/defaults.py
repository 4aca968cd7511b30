"""Write the defaults of the dataclasses into the commented files of conf/ (`make defaults`). With --check, only look.

A default's one source is the dataclass. A root's file shows its sections whole, as a file of a group that is no variant
of another does: there the values are put into their places, and comments, order and references to other keys (`${...}`)
stay as they are.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any, get_type_hints

import yaml

from dragoman.conf import groups
from dragoman.model.networks.architectures import architecture
from dragoman.model.schema import settings_of
from dragoman.pipelines.config import ImportRoot, SynthesizeRoot
from dragoman.pipelines.unpack import UnpackRoot
from dragoman.services.commands.export import ExportConfig
from dragoman.services.commands.inspect import InspectConfig
from dragoman.services.commands.keys import KeysConfig
from dragoman.services.commands.runs import RunsRoot
from dragoman.services.entries import COMMANDS
from dragoman.services.jobs.settings import UpRoot
from dragoman.services.models.home import root_of
from dragoman.services.models.vectors_source import QueryConfig
from dragoman.services.sweeps.settings import SweepRoot

# The types of all sections: one of a name is the same in every root.
ROOTS: tuple[type[Any], ...] = (
    *(SynthesizeRoot, ImportRoot, UnpackRoot, RunsRoot, UpRoot, SweepRoot),
    *(config if hasattr(config, "FILE") else root_of(section, config) for _, _, section, config in COMMANDS.values()),
    *(root_of("query", QueryConfig), root_of("export", ExportConfig)),
    *(root_of("inspect", InspectConfig), root_of("keys", KeysConfig)),
)
SECTIONS: dict[str, Any] = {
    name: hint for root in ROOTS for name, hint in get_type_hints(root).items() if is_dataclass(hint)
}


def schemas() -> Iterator[tuple[str, str, type[Any]]]:
    """(file, section, dataclass) of every section that a file shows whole; a group's file is one, without a name."""
    for file in sorted({file for root in groups.roots() for file in groups.files(root)}):
        for section in groups.content(file):
            if section in SECTIONS and section != "paths":
                yield file, section, SECTIONS[section]
    for group in sorted(groups.default_choices().keys() - {"experiment"}):
        for choice in groups.choices(group):
            if groups.beneath(group, choice) is None:
                file = f"{group}/{choice}"
                yield (
                    file,
                    "",
                    architecture(groups.content(file)["architecture"]).config if group == "model" else SECTIONS[group],
                )


def defaults(section: Any) -> dict[str, Any]:
    """The values of a section that nobody sets."""
    values = {field.name: getattr(section, field.name) for field in settings_of(type(section))}
    return {name: defaults(value) if is_dataclass(value) else value for name, value in values.items()}


def stale() -> dict[str, str]:
    """Returns name of a file -> its new content, for the files that differ."""
    found: dict[str, str] = {}
    for file, section, schema in schemas():
        shown = groups.content(file)
        values = _but_references(defaults(schema()), shown[section] if section else shown)
        text = found.get(file, groups.text(file))
        edits = _edits(yaml.compose(text), shown, {section: values} if section else values)
        for start, end, value in sorted(edits, reverse=True):
            found[file] = text = text[:start] + value + text[end:]
    return found


def _edits(section: yaml.Node, shown: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[tuple[int, int, str]]:
    """Yields (start, end, new text) of each value of a section that is not shown as it is."""
    for key, node in section.value:
        value = values.get(key.value, shown[key.value])
        if isinstance(node, yaml.MappingNode) and node.value and isinstance(value, dict) and value:
            yield from _edits(node, shown[key.value], value)
        elif value != shown[key.value]:
            new = yaml.safe_dump([value], default_flow_style=True, width=1_000_000, allow_unicode=True, sort_keys=False)
            yield node.start_mark.index, node.end_mark.index, new.strip()[1:-1]


def _but_references(defaults: Mapping[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults, without those in whose place the file names another key or the environment."""
    return {
        key: _but_references(value, shown[key]) if isinstance(value, dict) and shown.get(key) else value
        for key, value in defaults.items()
        if "${" not in str(shown.get(key)) or isinstance(value, dict)
    }


def main(argv: list[str]) -> int:
    """0 where nothing was, or has been, to be written; 1 where --check found something."""
    found = {groups.FOLDER / f"{name}.yaml": text for name, text in stale().items()}
    for path, text in found.items():
        if "--check" not in argv:
            path.write_text(text, encoding="utf-8")
        print(
            f"conf/{path.relative_to(groups.FOLDER)}: "
            + ("is not what the dataclass says" if "--check" in argv else "written")
        )
    return 1 if found and "--check" in argv else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
