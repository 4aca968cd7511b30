"""The user's texts as reports and logs quote them."""

LONGEST = 200  # characters; two to three lines of a terminal


def excerpt(text: str, longest: int = LONGEST) -> str:
    """Return one line of a text for a person to read: at most `longest` characters, an ellipsis where more follows.

    Line breaks and other characters that would move the cursor, change colours or turn the direction become spaces, so
    a text cannot write over the report that quotes it. Joiners inside of words stay.
    """
    head = text[: longest + 1]
    line = "".join(one if one.isprintable() or one in "\u200c\u200d" else " " for one in head)
    return f"{line[: longest - 1]}…" if len(line) > longest else line
