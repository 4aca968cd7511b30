"""Terms of a TBX file (ISO 30042, versions 2 and 3), which is what terminology managers exchange."""

from collections.abc import Iterator
from typing import Any

from lxml import etree

from dragoman.model.errors import UserError
from dragoman.model.languages import is_language, nearest

LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
ENTRIES, SECTIONS, TERMS = ("termEntry", "conceptEntry"), ("langSet", "langSec"), ("tig", "ntig", "termSec")
DEPRECATED = ("deprecatedTerm-admn-sts", "supersededTerm-admn-sts")


def read_tbx(content: bytes, source: str, target: str, where: str) -> list[tuple[str, str]]:
    """Returns the terms of a pair of languages, each with the first translation that is not deprecated.

    Raises:
        UserError: it is no TBX, or has no term of these languages; `where` opens the message.
    """
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True)
    try:
        root = etree.fromstring(content, parser)
    except etree.XMLSyntaxError as problem:
        raise UserError(f"{where}: is no TBX file ({problem.msg})") from None
    found: dict[str, str] = {}
    languages: dict[str, None] = {}
    for entry in (one for one in root.iter(etree.Element) if _name(one) in ENTRIES):
        terms = {
            one.get(LANGUAGE, ""): list(_terms(one))
            for one in entry
            if _name(one) in SECTIONS and is_language(one.get(LANGUAGE, ""))
        }
        languages |= dict.fromkeys(terms)
        here, there = (nearest(code, tuple(terms)) for code in (source, target))
        if here and there and terms[there]:
            for term in terms[here]:
                found.setdefault(term, terms[there][0])
    if not found:
        known = f"; its languages: {', '.join(languages)}" if languages else ""
        raise UserError(f"{where}: has no term from {source} to {target}{known}")
    return list(found.items())


def _terms(section: Any) -> Iterator[str]:
    """Yields the terms of a language in an entry."""
    for group in (one for one in section.iter(etree.Element) if _name(one) in TERMS):
        inside = list(group.iter(etree.Element))
        if any((one.text or "").strip() in DEPRECATED for one in inside if _name(one) == "termNote"):
            continue
        for one in inside:
            if _name(one) == "term" and (text := " ".join("".join(one.itertext()).split())):
                yield text


def _name(element: Any) -> str:
    return etree.QName(element).localname if isinstance(element.tag, str) else ""
