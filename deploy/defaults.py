"""Write the defaults of the dataclasses into the commented files of conf/ (`make defaults`). With --check, only look.

A default's one source is the dataclass. A file of a group that is no variant of another shows its section whole: there
the values are put into their places, and comments, order and references to other keys (`${...}`) stay as they are.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any, get_type_hints

import dragoman.pipelines.config
import dragoman.services.config
from dragoman.conf import groups
from dragoman.model.networks.architectures import ARCHITECTURES
from dragoman.pipelines.unpack import UnpackRoot

ROOTS = (
    dragoman.pipelines.config.SynthesizeRoot,
    dragoman.services.config.Config,
    UnpackRoot,
    dragoman.pipelines.config.ImportRoot,
)


def schemas() -> Iterator[tuple[str, str, type[Any]]]:
    """(group, choice, dataclass) of every file that shows a section whole."""
    sections = {name: hint for root in ROOTS for name, hint in get_type_hints(root).items() if is_dataclass(hint)}
    for group in sorted(groups.default_choices().keys() - {"experiment"}):
        for choice in groups.choices(group):
            if groups.beneath(group, choice) is not None:
                continue
            if group == "model":
                name = groups.content(f"model/{choice}")["architecture"]
                yield group, choice, (ARCHITECTURES)[name].config
            else:
                yield group, choice, sections[group]


def stale() -> dict[str, str]:
    """Returns name of a file -> its new content, for the files that differ."""
    found = {}
    for group, choice, schema in schemas():
        name = f"{group}/{choice}"
        text = (groups.FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
        wanted = groups.with_values(text, _but_references(asdict(schema()), groups.content(name)))
        if wanted != text:
            found[name] = wanted
    return found


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
            f"conf/{path.parent.name}/{path.name}: "
            + ("is not what the dataclass says" if "--check" in argv else "written")
        )
    return 1 if found and "--check" in argv else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
