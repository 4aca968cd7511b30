"""Translation units of TMX (1.4) and XLIFF (1.2, 2.x) files: language -> text, without the codes of their formats.

An inline element that stands for formatting (`bpt`, `ph`, `x` ...) is dropped with its content, which is code; one
that holds text (`hi`, `g`, `mrk`, `pc`) gives its text. The document's own entities are not resolved and nothing is
fetched, so a file cannot read another file or grow without limit.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from lxml import etree

from dragoman.model.errors import UserError
from dragoman.model.inputs.compression import compression_of
from dragoman.model.inputs.streams import Blocks

CODES = {"bpt", "ept", "ph", "it", "ut", "x", "bx", "ex", "sc", "ec", "cp"}  # elements whose content is no text
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


def units_of(path: Path, kind: Literal["tmx", "xliff"]) -> Iterator[dict[str, str]]:
    """Yields the texts of each unit by language.

    Raises:
        UserError: the file is not valid XML; the message names the line.
    """
    ends = ("tu",) if kind == "tmx" else ("trans-unit", "segment")
    languages: dict[str, str] = {}
    try:
        with Blocks.of(path) if compression_of(path) != "plain" else path.open("rb") as file:
            walk = etree.iterparse(
                file, events=("start", "end"), resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
            )
            for event, element in walk:
                name = _name(element)
                if event == "start":
                    languages |= _languages(element) if name in ("xliff", "file") else {}
                elif name in ends:
                    unit = _tmx_unit(element) if kind == "tmx" else _xliff_unit(element, languages)
                    if unit:
                        yield unit
                    _forget(element)
    except etree.XMLSyntaxError as problem:
        raise UserError(f"{path}: is no whole {kind.upper()} file ({problem.msg})") from None


def _tmx_unit(unit: Any) -> dict[str, str]:
    found = {}
    for variant in unit.iterchildren():
        if _name(variant) == "tuv":
            language = variant.get(LANGUAGE) or variant.get("lang") or ""
            segment = next((child for child in variant.iterchildren() if _name(child) == "seg"), None)
            if segment is not None:
                found[language] = _text(segment)
    return found


def _xliff_unit(unit: Any, languages: dict[str, str]) -> dict[str, str]:
    found = {}
    for side in unit.iterchildren():
        name = _name(side)
        if name in ("source", "target") and name in languages:
            found[side.get(LANGUAGE) or languages[name]] = _text(side)
    return found


def _languages(element: Any) -> dict[str, str]:
    """Returns the languages that a document (2.x) or a file in it (1.2) declares."""
    names = {"source": ("srcLang", "source-language"), "target": ("trgLang", "target-language")}
    return {side: str(element.get(key)) for side, keys in names.items() for key in keys if element.get(key)}


def _text(element: Any) -> str:
    parts = [element.text or ""]
    for child in element:
        if isinstance(child.tag, str) and _name(child) not in CODES:
            parts.append(_text(child))
        parts.append(child.tail or "")
    return " ".join("".join(parts).split())


def _name(element: Any) -> str:
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def _forget(element: Any) -> None:
    """Frees the memory of a unit and of those before it."""
    element.clear()
    while element.getprevious() is not None:
        del element.getparent()[0]
