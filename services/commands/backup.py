"""`dragoman backup PLACE [check]` and `dragoman restore PLACE`."""

from collections.abc import Sequence
from typing import Any

from dragoman.conf import compose
from dragoman.conf.options import positional
from dragoman.conf.showing import show
from dragoman.model.errors import UserError, unknown
from dragoman.model.ranges import check_ranges
from dragoman.services.backup.copies import files_of
from dragoman.services.backup.making import make
from dragoman.services.backup.restoring import check, restore
from dragoman.services.backup.settings import BackupConfig
from dragoman.services.commands.run_folders import size

ACTIONS = ("check",)
WORDS = (*ACTIONS, "list", "show", "restore")  # no folder is meant by them


def main(argv: Sequence[str]) -> int:
    """Returns the exit code of the command that is the first word."""
    verb, *rest = argv
    words, settings = positional(rest)
    return compose.run_section(lambda config: run(verb, config, words), "backup", BackupConfig, settings, verb)


def run(verb: str, config: BackupConfig, words: Sequence[str]) -> int:
    """Does what the words say."""
    check_ranges("backup", config)
    place, *rest = words or [""]
    if not place:
        raise UserError(f"{verb}: say where: dragoman {verb} FOLDER, or an address such as s3://BUCKET/NAME")
    if place in WORDS:
        raise UserError(f"{verb}: {place!r} is no place: dragoman {verb} FOLDER; a folder of that name is ./{place}")
    if verb == "restore":
        if len(rest) > 1:
            raise UserError(f"restore: one place: dragoman restore {place}")
        began = restore(config, place, *rest)
        show([summary(began)], lambda: f"restored {line(began)}\nhome {config.home}")
        return compose.OK
    match rest:
        case []:
            made = make(config, place)
            new = f"{len(made['new']):,} new files, {size(sum(made['new']))}, in {made['seconds']} s"
            healed = [f"{place}/{name} was damaged and is written again" for name in made["damaged"]]
            show([summary(made)], lambda: "\n".join([line(made), new, *healed]))
        case ["check", *name] if len(name) < 2:
            sound = check(config, place, *name)
            show([summary(sound)], lambda: f"sound: {line(sound)}")
        case _:
            raise unknown("backup: action", rest[0], ACTIONS)
    return compose.OK


def summary(manifest: dict[str, Any]) -> dict[str, Any]:
    """Returns what a backup holds, in numbers."""
    sizes = [entry.entry["size"] for entry in files_of(manifest)]
    facts = {key: manifest[key] for key in ("name", "version", "made", "home")}
    facts |= {"files": len(sizes), "bytes": sum(sizes)}
    if "new" in manifest:
        facts |= {"new_files": len(manifest["new"]), "new_bytes": sum(manifest["new"]), "seconds": manifest["seconds"]}
        facts["damaged"] = manifest["damaged"]
    return facts | {"tables": {name: database["counts"] for name, database in manifest["databases"].items()}}


def line(manifest: dict[str, Any]) -> str:
    """Returns what a backup holds, as one line."""
    facts = summary(manifest)
    rows = [
        f"{name} {', '.join(f'{count:,} {what}' for what, count in counts.items())}"
        for name, counts in facts["tables"].items()
    ]
    return "; ".join([f"{facts['name']}: {facts['files']:,} files, {size(facts['bytes'])}", *rows]).replace("_", " ")
