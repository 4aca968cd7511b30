"""A line of a log as HTML: its terminal colours as classes, all else escaped."""

import re

from markupsafe import Markup, escape

from dragoman.services.jobs.service.logs import ESCAPES

SGR = re.compile(r"\x1b\[([0-9;]*)m")  # Select Graphic Rendition, ECMA-48
WORDS = {1: "bold", 2: "dim", 3: "italic", 4: "under"}
ENDS = {22: ("bold", "dim"), 23: ("italic",), 24: ("under",)}
EIGHT = range(30, 38)
BRIGHT = range(90, 98)


def coloured(line: str, marked: str = "") -> Markup:
    """Returns a line as HTML; `marked` is a text to be marked in it, A to Z equal a to z.

    Of a line that was overwritten (progress bars) the last version is shown. Colours beyond the sixteen are left out.
    """
    classes: list[str] = []
    found, place = [], 0
    line = line.rstrip("\r").rpartition("\r")[2]
    for match in SGR.finditer(line):
        found.append(_span(line[place : match.start()], classes, marked))
        _apply(match[1], classes)
        place = match.end()
    return Markup("").join([*found, _span(line[place:], classes, marked)])


def _span(text: str, classes: list[str], marked: str) -> Markup:
    text = ESCAPES.sub("", text)  # the cursor's moves
    if marked:
        parts = re.split(f"({re.escape(marked)})", text, flags=re.IGNORECASE | re.ASCII)
        inner = Markup("").join(
            Markup("<mark>{}</mark>").format(part) if number % 2 else escape(part) for number, part in enumerate(parts)
        )
    else:
        inner = escape(text)
    return Markup('<span class="{}">{}</span>').format(" ".join(classes), inner) if classes and text else inner


def _apply(text: str, classes: list[str]) -> None:
    """Changes the classes as a sequence of codes says."""
    codes = iter([int(one or 0) for one in text.split(";")])
    for code in codes:
        if code == 0:
            classes.clear()
        elif code in WORDS:
            classes.append(WORDS[code])
        elif code in (38, 48):  # 5;N or 2;R;G;B
            for _ in range(1 if next(codes, 0) == 5 else 3):
                next(codes, 0)
        elif code in EIGHT or code in BRIGHT or code == 39:
            classes[:] = [one for one in classes if not one.startswith("ansi")]
            classes.extend([] if code == 39 else [f"ansi{code % 10}"])
        elif code in ENDS:
            classes[:] = [one for one in classes if one not in ENDS[code]]
