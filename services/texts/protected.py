"""Finds what must not change in plain text: links, addresses, numbers, placeholders, code, emoji."""

from collections.abc import Iterator

import regex

from dragoman.model.text.units import UNITS
from dragoman.services.texts import icu
from dragoman.services.texts.runs import Mask
from dragoman.services.texts.trees import unescape_html

_DOMAINS = "com|org|net|edu|gov|int|info|io|dev|app|eu|de|at|ch|fr|es|it|nl|pl|uk|us|ru|cn|jp|br"
# No place of a text is looked at from many others, or a stranger's text takes minutes: repeats are possessive (++, *+),
# and what ends in a certain way does not begin again before its end.
_DIGITS = r"\p{Nd}++(?:[.,'’:/\u00a0\u202f٫٬-]\p{Nd}++)*+"
FORMULA = r"\$\$[^$]{1,2000}\$\$|\$(?=[^\s$])(?=[^$\n]{0,200}[\\^_=+<>])[^$\n]{1,200}(?<!\s)\$(?!\d)"
_TAG = r"""[A-Za-z][\w:.-]*+(?:\s[^<>]*)?"""
# By name: the kind of what is found. The first that fits at a place wins.
_KINDS = {
    "url": r"""(?:https?|ftps?|file|wss?|git|ssh|mailto|tel):(?://)?(?:[^\s<>"“”«»`()\ufffc]|\([^\s()<>"\ufffc]*\))+(?<![.,;:!?…'’\]}}*_])"""
    rf"""|(?<![\w@.-])(?:www\.[^\s<>"\ufffc]*[\w/]|[\w-]+(?:\.[\w-]+)*\.(?:{_DOMAINS})\b(?!\.\w)(?:/[^\s<>"\ufffc]*[\w/])?)""",
    "email": r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "code": r"(?<!`)(?P<tick>`{1,3})(?!`)(?:(?!(?P=tick)(?!`))[^\n])+(?P=tick)(?!`)"
    rf"|{FORMULA}",
    "reference": r"\[\^[^\s\[\]]{1,80}\]",
    "break": r"\\(?:N|[nrt](?![a-z]))",
    "placeholder": r"<%[^<>%\n]{0,500}%>|<\?[^<>?\n]{0,500}\?>|\{\{\{[^{}\n]*\}\}\}|\{\{[^{}\n]*\}\}"
    r"|\{[:#.][^{}\n]{0,200}\}|\$\{[^{}\n]*\}|\$\([^()\n]*\)|\{%(?:(?!\{%)[^\n])*?%\}|#\{[^{}\n]*\}|%\{[^{}\n]*\}"
    r"|\{[^{}\s,;]{0,80}\}|\{\s?[\w.]+\s?(?:,\s?\w+\s?){1,2}\}"
    r"|%(?:\(\w+\)|\d++\$)?[#0+-]*+(?:\d++|\*)?+(?:\.\d++)?+(?:hh?|ll?|[Lzjtq])?[diouxXeEfFgGcrsaA@](?![A-Za-z])"
    r"|%\w+%|%%|\$[^\W\d]\w*\$|(?<![\w$])\$[A-Za-z_]\w*",
    "element": rf"<{_TAG}/>",
    "tag": rf"</?{_TAG}>|<\d[\d:.]{{1,20}}>|<!--(?:(?!<!--).)*?-->",
    "entity": r"&(?:[A-Za-z]\w*|#\d+|#x[0-9A-Fa-f]+);",
    "shortcode": r"(?<![\w:]):[a-z][a-z0-9_+-]*:(?![\w:])",
    "emoji": r"(?:\p{RI}\p{RI}|[0-9#*]\ufe0f?\u20e3"
    r"|(?:\p{Emoji_Presentation}|\p{Emoji}\ufe0f|\p{Emoji}(?=\p{Emoji_Modifier})"
    r"|(?!\p{N}|[#*©®™])\p{Extended_Pictographic})[\p{Emoji_Modifier}\ufe0f\u20e3\U000e0020-\U000e007f]*+"
    r"(?:\u200d(?:\p{Emoji}[\p{Emoji_Modifier}\ufe0f]*+))*+)++"
    r"|(?<![^\s(])(?:[:;=8xX][-o']?[)(\]\[DPpOo/\\|*3]|<3|\^\^|:-?'\()(?![\w/])",
    "path": r"(?<![\w/.<])(?:~|\.{1,2})?(?:/[\w.@+-]+){2,}/?|(?<!\w)[A-Za-z]:\\[^\s\"<>|]*",
    "mention": r"(?<![\w@#/])[@#](?!\d+\b)\w[\w.-]*\w",
    "number": rf"(?:(?<![\w])|(?=\p{{Sc}}))(?:[-+−±~≈]|[<>≤≥]=?\s?)?(?:\p{{Sc}}\s?)?(?:{_DIGITS})"
    rf"(?:\s?(?:{UNITS})(?![\w])|\s?[%‰\p{{Sc}}](?!\p{{Nd}})|\s?°\s?[CFK]?(?!\w)|[\w'’]*(?:[-.][\w]*\p{{Nd}}\w*)*)"
    r"|(?<![\w-])(?=[\p{L}_])[\w-]{1,40}?\p{Nd}[\w-]*(?:[.,:/]\p{Nd}[\w-]*)*",
    "symbol": r"[[\p{So}\p{Sm}\p{Co}]--[+<>=|~°]]+",
}
ANCHORS = frozenset(("break", "reference", "tag", "shortcode", "emoji", "symbol"))
PATTERN = regex.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _KINDS.items()), regex.VERSION1)
LONGEST_MESSAGE, MOST_TRIES = 4_000, 200  # characters of a plural or select; braces of a text that begin none
_ORDINARY = regex.compile(r"[\p{L}\p{M}\s.,!?;'’\"“”„()-]*+")  # a text in which nothing is masked
LETTER = regex.compile(r"\p{L}")


def has_letter(text: str) -> bool:
    """Returns True if there is something to translate."""
    return LETTER.search(text) is not None


def is_ordinary(text: str, start: int = 0, end: int | None = None) -> bool:
    """Returns True for words, blanks and marks of sentences alone: there is nothing in them that must not change."""
    return _ORDINARY.fullmatch(text, start, len(text) if end is None else end) is not None


def find_masks(text: str, start: int = 0, end: int | None = None) -> Iterator[Mask]:
    """Yields what must not change in a plain text, in order."""
    end = len(text) if end is None else end
    if is_ordinary(text, start, end):
        return
    place = start
    brace = text.find("{", start, end)
    tries = 0
    while brace >= 0 and tries < MOST_TRIES:
        message = icu.read_message(text[brace : min(end, brace + LONGEST_MESSAGE)], 0)
        if message is None:
            tries += 1
            brace = text.find("{", brace + 1, end)
            continue
        close = brace + message[1]
        yield from _plain_masks(text, place, brace)
        yield Mask(brace, close, "message", text[brace:close])
        place = close
        brace = text.find("{", place, end)
    yield from _plain_masks(text, place, end)


def _plain_masks(text: str, start: int, end: int) -> Iterator[Mask]:
    for match in PATTERN.finditer(text, start, end):
        kind, raw = match.lastgroup or "", match.group()
        sign = unescape_html(raw) if kind == "entity" else ""
        if sign.isspace():  # a line feed or another blank, written as letters
            kind = "soft" if sign.strip("\r\n\u2028\u2029") else "break"
        numbered = raw.startswith("&#") and not sign.isalnum()  # it stands for a sign
        yield Mask(match.start(), match.end(), kind, raw, anchor=kind in ANCHORS or kind == "soft" or numbered)
