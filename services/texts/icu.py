"""Messages of ICU: plurals and selects, whose branches are translated and whose syntax is not.

{count, plural, =0 {no dogs} one {# dog} other {# dogs}}
"""

from collections.abc import Iterator

KINDS = ("plural", "select", "selectordinal")
LONGEST_NAME = 80


def read_message(text: str, start: int) -> tuple[list[tuple[bool, str]], int] | None:
    """Returns the message that begins at `start` as (translatable, text), and its end; None if there is none."""
    if text[start : start + 1] != "{":
        return None
    comma = text.find(",", start, start + LONGEST_NAME)
    second = text.find(",", comma + 1, comma + LONGEST_NAME)
    if comma < 0 or second < 0:
        return None
    name, kind = text[start + 1 : comma].strip(), text[comma + 1 : second].strip()
    if kind not in KINDS or not name.replace("_", "a").replace(".", "a").isalnum():
        return None
    parts: list[tuple[bool, str]] = []
    literal, place, branches = start, second + 1, 0
    while place < len(text):
        sign = text[place]
        if sign == "}":
            parts.append((False, text[literal : place + 1]))
            return (parts, place + 1) if branches else None
        if sign == "{":
            end = closing_brace(text, place)
            if end < 0:
                return None
            parts += [(False, text[literal : place + 1]), (True, text[place + 1 : end])]
            literal, place, branches = end, end + 1, branches + 1
        elif sign.isspace() or sign.isalnum() or sign in "=:_-":
            place += 1
        else:
            return None
    return None


def closing_brace(text: str, start: int) -> int:
    """Returns the place of the brace that closes the one at `start`; -1 if none does."""
    depth = 0
    for place, sign in _unquoted(text, start):
        depth += (sign == "{") - (sign == "}")
        if not depth:
            return place
    return -1


def _unquoted(text: str, start: int) -> Iterator[tuple[int, str]]:
    """Yields the characters that ICU's quotes ('{') leave as syntax."""
    place = start
    while place < len(text):
        if text[place] == "'" and text[place + 1 : place + 2] in ("{", "}"):
            end = text.find("'", place + 1)
            place = len(text) if end < 0 else end + 1
            continue
        yield place, text[place]
        place += 1
