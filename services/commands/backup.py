"""`dragoman backup PLACE [list | check [NAME]]` and `dragoman restore PLACE [NAME]`."""

from collections.abc import Sequence
from typing import Any

from dragoman.conf import compose
from dragoman.conf.options import positional
from dragoman.conf.showing import show
from dragoman.model.errors import UserError, unknown
from dragoman.model.ranges import check_ranges
from dragoman.model.storage.retry import Patience
from dragoman.services.backup.archive import Archive, objects
from dragoman.services.backup.making import make
from dragoman.services.backup.restoring import check, restore
from dragoman.services.backup.settings import BackupConfig
from dragoman.services.commands.run_folders import size
from dragoman.services.jobs.client.table import table

ACTIONS = ("check", "list")


def main(argv: Sequence[str]) -> int:
    """Returns the exit code of the command that is the first word."""
    verb, *rest = argv
    words, settings = positional(rest)
    return compose.run_section(lambda config: run(verb, config, words), "backup", BackupConfig, settings, verb)


def run(verb: str, config: BackupConfig, words: Sequence[str]) -> int:
    """Does what the words say.

    Raises:
        UserError: no place, an unknown action, or what `make`, `check` and `restore` refuse.
    """
    check_ranges("backup", config)
    place, *rest = words or [""]
    if not place:
        raise UserError(f"{verb}: say where: dragoman {verb} FOLDER, or an address such as s3://BUCKET/NAME")
    if verb == "restore":
        if len(rest) > 1:
            raise UserError(f"restore: one backup, or none for the newest: dragoman restore {place} [NAME]")
        began = restore(config, place, *rest)
        show([summary(began)], lambda: f"restored {line(began)}\nhome {config.home}")
        return compose.OK
    match rest:
        case []:
            made = make(config, place)
            new = f"{len(made['new']):,} new files, {size(sum(made['new']))}, in {made['seconds']} s"
            show([summary(made)], lambda: f"{line(made)}\n{new}")
        case ["list"]:
            archive = Archive(place, Patience(config.patience))
            found = [archive.manifest(name) for name in archive.names()]
            show([summary(one) for one in found], lambda: _listed(found))
        case ["check", *name] if len(name) < 2:
            sound = check(config, place, *name)
            show([summary(sound)], lambda: f"sound: {line(sound)}")
        case _:
            raise unknown("backup: action", rest[0], ACTIONS)
    return compose.OK


def summary(manifest: dict[str, Any]) -> dict[str, Any]:
    """Returns what a backup holds, in numbers."""
    sizes = [one["size"] for one in objects(manifest)]
    found = {key: manifest[key] for key in ("name", "version", "made", "home")}
    found |= {"files": len(sizes), "bytes": sum(sizes)}
    if "new" in manifest:
        found |= {"new_files": len(manifest["new"]), "new_bytes": sum(manifest["new"]), "seconds": manifest["seconds"]}
    return found | {"tables": {name: one["counts"] for name, one in manifest["databases"].items()}}


def line(manifest: dict[str, Any]) -> str:
    """Returns what a backup holds, as one line."""
    facts = summary(manifest)
    rows = [
        f"{name} {', '.join(f'{count:,} {what}' for what, count in counts.items())}"
        for name, counts in facts["tables"].items()
    ]
    return "; ".join([f"{facts['name']}: {facts['files']:,} files, {size(facts['bytes'])}", *rows]).replace("_", " ")


def _listed(manifests: Sequence[dict[str, Any]]) -> str:
    rows: list[Sequence[object]] = [("NAME", "VERSION", "FILES", "SIZE", "JOBS")]
    for one in manifests:
        facts = summary(one)
        jobs = facts["tables"].get("ledger", {}).get("jobs", "")
        rows.append((one["name"], one["version"], f"{facts['files']:,}", size(facts["bytes"]), jobs))
    return table(rows)
