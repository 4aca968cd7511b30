"""Reads pages and pictures strictly, and draws texts that try to be more than text."""

from pathlib import Path

import html5lib
from hypothesis import strategies as st
from lxml import etree

HOSTILE = (
    *("<script>alert(1)</script>", "]]>", "<![CDATA[", "-->", "<!--", "</title>", "</pre><b>", "&lt;i&gt;", "&#0;"),
    *("\x00", "\x01", "\x0b", "\x0c", "\x1b[2J", "\x7f", "\x85", "\ud83d", "\udcff", "\ufffe", "\ufdd0", "\U0010ffff"),
    *("\u202e", "\u200f", "\u2028", "\ufeff", "\t", "\r\n", "$body ${nav}", '" onload="alert(1)', "' style='x"),
    *("[x](javascript:alert(1))", "![x](y)", "`", "```", "{{ 7 * 7 }}", "{% raw %}", "\\", "日本", "😀"),
)
TEXTS = st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(), max_size=5)), max_size=5).map("".join)


def elements(page: str) -> list[tuple[str, dict[str, str]]]:
    """Return the elements of a page and their attributes in order.

    Raises:
        html5lib.html5parser.ParseError: anything that HTML's standard calls a parse error.
    """
    page.encode()  # what is sent
    tree = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)
    return [(str(one.tag), dict(one.attrib)) for one in tree.iter() if isinstance(one.tag, str)]


def check_nothing_runs(page: str) -> list[str]:
    """Return the names of a page's elements, of which none is a script of its own, or leads to one."""
    found = elements(page)
    for name, attributes in found:
        assert name not in ("iframe", "object", "embed", "base"), name
        assert name != "script" or attributes["src"].startswith(("/static/", "static/")), attributes
        for key, value in attributes.items():
            assert not key.startswith("on") and key != "srcdoc", (name, key)
            assert key not in ("href", "src", "action") or "script:" not in value.lower(), value
    return [name for name, _ in found]


def check_picture(path: Path) -> None:
    """Raise lxml.etree.XMLSyntaxError, or AssertionError for a script, where an SVG is more than a picture."""
    tree = etree.parse(path, etree.XMLParser(resolve_entities=False, no_network=True))
    names = {etree.QName(one).localname for one in tree.iter(etree.Element)}
    assert "svg" in names and not names & {"script", "foreignObject", "a"}, names
    links = [value for one in tree.iter(etree.Element) for key, value in one.attrib.items() if "href" in key]
    assert all(link.startswith(("#", "data:image/png;")) for link in links)
