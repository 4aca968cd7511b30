"""`dragoman memory [list | import FILE.tmx | export FILE.tmx | clear]`: the translation memory of `dragoman serve`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from lxml import etree

from dragoman.conf import compose
from dragoman.conf.options import positional
from dragoman.conf.showing import show
from dragoman.model.errors import UserError, unknown
from dragoman.model.files import atomic_open
from dragoman.model.inputs.kinds import kind_of
from dragoman.model.inputs.units import LANGUAGE, units_of
from dragoman.model.languages import is_language, nearest, split_pair, standard_code
from dragoman.services.endpoint.key_store import KeyStore
from dragoman.services.endpoint.memory_store import EVERYBODY, MemoryStore, Unit
from dragoman.services.jobs.client.table import table
from dragoman.services.version import version

ACTIONS = ("list", "import", "export", "clear")
WHITE = "\t\n\r"  # control characters that XML can hold


@dataclass
class MemoryConfig:
    """The database, and the units that are meant."""

    database: str = "sqlite:///artifacts/endpoint/endpoint.db"
    pair: str | None = None  # such as en-de: this direction alone; null: all
    origin: str | None = None  # export, clear: what came from this file, or `suggestion`; null: all


def main(argv: Sequence[str]) -> int:
    """Returns the command's exit code."""
    words, rest = positional(argv)
    return compose.run_section(lambda config: memory(config, words), "memory", MemoryConfig, rest, "memory")


def memory(config: MemoryConfig, words: Sequence[str]) -> int:
    """Does what the words say; without words it lists."""
    action, names = (words[0], words[1:]) if words else ("list", [])
    if action not in ACTIONS:
        raise unknown("action", action, ACTIONS)
    if len(names) != (action in ("import", "export")):
        raise UserError(f"memory {action}: {'takes no file' if names else 'name one file'}")
    pair = None if config.pair is None else split_pair(config.pair)
    keys = KeyStore(config.database)
    store = MemoryStore(keys)
    try:
        if action == "import":
            _import(store, Path(names[0]), pair)
        elif not keys.there():
            raise UserError(f"memory.database: {config.database} is not there; `dragoman memory import FILE` makes it")
        elif action == "export":
            _export(store, Path(names[0]), pair, config.origin)
        elif action == "clear":
            source, target = pair or (None, None)
            deleted = store.clear(source, target, config.origin)
            show([{"deleted": deleted}], lambda: f"deleted: {deleted} units")
        else:
            counts = store.counts()
            rows = [[f"{count[0]}-{count[1]}", count[2] or "everybody", count[3], str(count[4])] for count in counts]
            names = ("source", "target", "owner", "origin", "units")
            records = [dict(zip(names, count, strict=True)) for count in counts]
            show(records, lambda: table([["PAIR", "FOR", "FROM", "UNITS"], *rows]))
    finally:
        keys.close()
    return compose.OK


def _import(store: MemoryStore, path: Path, pair: tuple[str, str] | None) -> None:
    if not path.is_file():
        raise UserError(f"memory import: {path} is no file")
    if kind_of(path) != "tmx":
        raise UserError(f"memory import: {path} is no TMX file")
    count = store.put(_units(path, pair), path.name)
    if not count:
        raise UserError(f"memory import: {path} has no unit of {'-'.join(pair) if pair else 'two languages'}")
    show(
        [{"imported": count, "path": str(path)}], lambda: f"{count} units from {path}; servers know them within seconds"
    )


def _units(path: Path, pair: tuple[str, str] | None) -> Iterator[Unit]:
    """Yields the units of a TMX file in both directions, or in that of `pair` alone."""
    for unit in units_of(path):
        texts = {code: text for code, text in unit.items() if text and is_language(code)}
        if pair is None:
            yield from (Unit(first, other, texts[first], texts[other]) for first, other in permutations(texts, 2))
            continue
        source, target = (nearest(code, tuple(texts)) for code in pair)
        if source and target:
            yield Unit(*pair, texts[source], texts[target])


def _export(store: MemoryStore, path: Path, pair: tuple[str, str] | None, origin: str | None) -> None:
    languages = None if pair is None else tuple(map(standard_code, pair))
    rows = [
        row
        for row in store.rows()
        if languages in (None, (row.source, row.target)) and origin in (None, row.origin) and row.owner == EVERYBODY
    ]
    if not rows:
        raise UserError("memory export: there is no such unit; `dragoman memory list` shows what there is")
    header = {
        "creationtool": "dragoman",
        "creationtoolversion": version(),
        "segtype": "block",
        "o-tmf": "dragoman",
        "adminlang": "en",
        "srclang": rows[0].source if pair else "*all*",
        "datatype": "plaintext",
    }
    with atomic_open(path) as file, etree.xmlfile(file, encoding="utf-8") as xml:
        xml.write_declaration()
        with xml.element("tmx", version="1.4"):
            xml.write(etree.Element("header", header), pretty_print=True)
            with xml.element("body"):
                for row in rows:
                    unit = etree.Element("tu", srclang=row.source)
                    for language, text in ((row.source, row.text), (row.target, row.translation)):
                        variant = etree.SubElement(unit, "tuv", {LANGUAGE: language})
                        etree.SubElement(variant, "seg").text = "".join(
                            letter for letter in text if letter >= " " or letter in WHITE
                        )
                    xml.write(unit, pretty_print=True)
    show([{"exported": len(rows), "path": str(path)}], lambda: f"{len(rows)} units in {path}")
