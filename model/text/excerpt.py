"""Quotes the user's texts in reports, pages and logs."""

import regex

LONGEST = 200  # characters; two to three lines of a terminal
# Controls except white space, lone surrogates, and noncharacters: neither XML 1.0 nor HTML may contain them.
_NOT_IN_MARKUP = regex.compile(r"[[\p{Cc}\p{Cs}\p{Noncharacter_Code_Point}]--[\t\n\r]]", regex.VERSION1)


def excerpt(text: str, longest: int = LONGEST) -> str:
    """Returns one line of a text for a person to read: at most `longest` characters, an ellipsis where more follows.

    Line breaks and other characters that would move the cursor, change colours or turn the direction become spaces, so
    a text cannot write over the report that quotes it. Joiners inside of words stay.
    """
    head = text[: longest + 1]
    line = "".join(letter if letter.isprintable() or letter in "\u200c\u200d" else " " for letter in head)
    return f"{line[: longest - 1]}…" if len(line) > longest else line


def for_markup(text: str) -> str:
    """Returns a text, or a whole page, with U+FFFD for each character that XML and HTML may not contain.

    The caller escapes marks such as <.
    """
    cleaned: str = _NOT_IN_MARKUP.sub("\ufffd", text)
    return cleaned
