"""`dragoman models`: lists the registered versions of all models, with alias, score, age, size and run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from conf import compose
from model.storage.mirror import local_folder
from services.commands.run_folders import age, headline, size
from services.jobs.client.table import table
from services.models.registry import Registry


@dataclass
class ModelsRoot:
    """The settings that the command reads, as plain values."""

    tracking: dict[str, Any]
    paths: dict[str, Any]


def main(argv: Sequence[str]) -> int:
    """Returns the command's exit code."""
    return compose.run(
        lambda root: show(
            Registry(root.tracking["uri"], local_folder(root.paths["root"], root.paths["cache"]) / "cache" / "models")
        ),
        ModelsRoot,
        argv,
        "models",
    )


def show(registry: Registry) -> int:
    """Prints one line per version, newest first.

    Raises:
        UserError: there is no registry, or it does not answer.
    """
    found, aliases = registry.list_versions(), registry.aliases()
    rows = [
        [
            one.name,
            str(one.version),
            ", ".join(aliases.get((one.name, str(one.version)), [])) or "-",
            headline(one.tags),
            age(one.creation_timestamp / 1000),
            size(int(one.tags["bundle_bytes"])) if "bundle_bytes" in one.tags else "-",
            one.tags.get("run_name", "-"),
        ]
        for one in found
    ]
    head = ["MODEL", "VERSION", "ALIAS", "SCORE", "AGE", "SIZE", "RUN"]
    print(table([head, *rows]) if rows else f"no models in the registry at {registry}; `dragoman train` registers one")
    return compose.OK
