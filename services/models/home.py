"""Where a verb looks for models, the home's runs, its registry and the cache of bundles, and where they compute."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, make_dataclass
from typing import Any, Literal, TypeVar, get_type_hints

from dragoman.conf import compose
from dragoman.conf.groups import sections
from dragoman.model.schema import NO_SETTING, convert
from dragoman.model.storage.places import local_folder

Section = TypeVar("Section")
Device = Literal["cpu", "cuda"]
# Settings of a root itself, which several verbs have; null: the default of the section's own field.
SHARED: dict[str, Any] = {
    "device": Device,
    **dict.fromkeys(("engine", "bundle", "input", "output", "format", "too_long", "on_error"), str | None),
}


@dataclass(frozen=True)
class Home:
    """The places that `paths` and `tracking` name."""

    runs: str = "artifacts/runs"
    cache: str = "artifacts/cache/models"  # downloaded bundles
    tracking: str = "sqlite:///artifacts/mlflow/mlflow.db"
    owner: str | None = None  # whose models are meant where none is named
    device: Device = "cpu"


def home_of(paths: Mapping[str, Any], tracking: Mapping[str, Any], device: Device) -> Home:
    """Returns the home of the sections `paths` and `tracking`."""
    cache = local_folder(paths["root"], paths["cache"]) / "cache" / "models"
    return Home(
        str(local_folder(paths["runs"], paths["cache"])), str(cache), str(tracking["uri"]), paths["owner"], device
    )


def run_section(
    task: Callable[[Section], int | None], name: str, section: type[Section], argv: Sequence[str], verb: str
) -> int:
    """Runs a command that reads the one section `name` of the root of that name; returns its exit code."""
    return compose.run(
        lambda values: task(with_home(values, name)), root_of(name, section), argv, verb, shown=[*SHARED, name]
    )


def root_of(name: str, section: type[Any]) -> type[Any]:
    """Returns the root of the file `name`, of which a command reads the one section of that name."""
    parts: list[tuple[str, Any]] = [("paths", dict[str, Any]), ("tracking", dict[str, Any]), (name, section)]
    parts += [(key, kind) for key, kind in SHARED.items() if key in sections(name)]
    return make_dataclass("Root", parts, namespace={"FILE": name})


def with_home(root: Any, name: str) -> Any:
    """Returns a root's section, which has the home and the root's shared settings from now on."""
    section = getattr(root, name)
    own = {part.name for part in fields(section) if part.metadata == NO_SETTING}
    if "home" in own:
        section.home = home_of(root.paths, root.tracking, getattr(root, "device", "cpu"))
    hints = get_type_hints(type(section), include_extras=True)
    for key in own & SHARED.keys() & vars(root).keys():
        if (value := getattr(root, key)) is not None:
            setattr(section, key, convert(hints[key], value, key))
    return section
