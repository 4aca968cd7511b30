"""The user's texts as reports, pages and logs quote them."""

import regex

LONGEST = 200  # characters; two to three lines of a terminal
# Controls but white space, halves of characters, what is no character: neither XML 1.0 nor HTML can hold them.
_NOT_IN_MARKUP = regex.compile(r"[[\p{Cc}\p{Cs}\p{Noncharacter_Code_Point}]--[\t\n\r]]", regex.VERSION1)


def excerpt(text: str, longest: int = LONGEST) -> str:
    """Return one line of a text for a person to read: at most `longest` characters, an ellipsis where more follows.

    Line breaks and other characters that would move the cursor, change colours or turn the direction become spaces, so
    a text cannot write over the report that quotes it. Joiners inside of words stay.
    """
    head = text[: longest + 1]
    line = "".join(one if one.isprintable() or one in "\u200c\u200d" else " " for one in head)
    return f"{line[: longest - 1]}…" if len(line) > longest else line


def for_markup(text: str) -> str:
    """Return a text, or a whole page, with U+FFFD in place of each character that XML and HTML cannot hold.

    Marks such as < are the caller's to escape.
    """
    found: str = _NOT_IN_MARKUP.sub("\ufffd", text)
    return found
