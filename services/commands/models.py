"""`dragoman models`: lists the registered versions of all models, with alias, score, age, size and run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dragoman.conf import compose
from dragoman.conf.showing import show as show_records
from dragoman.model.storage.places import local_folder
from dragoman.services.commands.runs import age, headline, size
from dragoman.services.jobs.client.table import table
from dragoman.services.models.registry import Registry


@dataclass
class ModelsRoot:
    """The settings that the command reads, as plain values."""

    FILE: ClassVar = "models"

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
    """Prints one line per version, newest first."""
    versions, aliases = registry.list_versions(), registry.aliases()
    records = [
        {
            "name": version.name,
            "version": int(version.version),
            "aliases": aliases.get((version.name, str(version.version)), []),
            "score": headline(version.tags),
            "created": version.creation_timestamp / 1000,
            "bytes": _bytes(version.tags),
            "run": version.tags.get("run_name"),
        }
        for version in versions
    ]

    def text() -> str:
        rows = [
            [
                *(record["name"], str(record["version"]), ", ".join(record["aliases"]) or "-", record["score"]),
                *(
                    age(record["created"]),
                    "-" if record["bytes"] is None else size(record["bytes"]),
                    record["run"] or "-",
                ),
            ]
            for record in records
        ]
        head = ["MODEL", "VERSION", "ALIAS", "SCORE", "AGE", "SIZE", "RUN"]
        return table([head, *rows]) if rows else f"no models in the registry at {registry}; `dragoman train` makes one"

    show_records(records, text)
    return compose.OK


def _bytes(tags: Mapping[str, str]) -> int | None:
    return int(tags["bundle_bytes"]) if "bundle_bytes" in tags else None
