"""Where a verb looks for models, the home's runs, its registry and the cache of bundles, and where they compute."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, make_dataclass, replace
from typing import Any, Literal, TypeVar

from dragoman.conf import compose
from dragoman.conf.groups import sections
from dragoman.model.storage.places import local_folder

Section = TypeVar("Section")
Device = Literal["cpu", "cuda"]
NO_SETTING = {"setting": False}  # of a section's field `home`, which `run_section` fills


@dataclass(frozen=True)
class Home:
    """The places that `paths` and `tracking` name."""

    runs: str = "artifacts/runs"
    cache: str = "artifacts/cache/models"  # downloaded bundles
    tracking: str = "sqlite:///artifacts/mlflow/mlflow.db"
    owner: str | None = None  # whose models are meant where none is named
    device: Device = "cpu"
    section: str = "SECTION"  # of the verb's settings, for messages


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
        lambda values: task(with_home(values, name)), root_of(name, section), argv, verb, shown=[name, "device"]
    )


def root_of(name: str, section: type[Any]) -> type[Any]:
    """Returns the root of the file `name`, of which a command reads the one section of that name."""
    parts: list[tuple[str, Any]] = [("paths", dict[str, Any]), ("tracking", dict[str, Any]), (name, section)]
    parts += [("device", Device)] if "device" in sections(name) else []
    return make_dataclass("Root", parts, namespace={"FILE": name})


def with_home(root: Any, name: str) -> Any:
    """Returns a root's section, which knows the home from now on."""
    section = getattr(root, name)
    if any(part.name == "home" for part in fields(section)):
        section.home = replace(home_of(root.paths, root.tracking, getattr(root, "device", "cpu")), section=name)
    return section
