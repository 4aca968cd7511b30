"""A sentence as the line that a model is given: without its masks, on one line, with a stop, in small letters."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import regex

from dragoman.model.text.letters import fold_case
from dragoman.services.texts import casing
from dragoman.services.texts.runs import Mask, Run, Span
from dragoman.services.texts.stand_ins import Pair, StandIns

_STOP = regex.compile(r"(?:[\p{Sentence_Terminal}…]+|[:;])[\"'”’»)\]]*$")
PLAIN_SCRIPT = regex.compile(r"[\p{Latin}\p{Cyrillic}\p{Greek}\p{Armenian}\p{Georgian}\p{Hebrew}\p{N}\"'”’»)\]]$")
SHORT = 3  # words of a text that is given in several forms
_OTHER_BLANK = regex.compile(r"[^\S ]|[\x1c-\x1f]")
_APOSTROPHE = regex.compile(r"(?<=\p{L})’(?=\p{L})")


@dataclass(eq=False)
class Line:
    """A part of a run as the model is given it."""

    text: str
    origin: list[int]  # by character: its place in the run
    stood: list[tuple[Mask, Pair, Span]]  # masks whose stand-in is in the text, and where
    shown: list[Mask]  # masks that the model sees as they are
    anchors: list[Mask]  # masks that are left out
    softs: list[Mask]  # masks that are line feeds
    shouted: bool
    small: bool
    capital: bool  # it begins with one
    stop: str  # "" or the full stop that was added
    last: str  # the stop of the source, if it ends with one
    linked: bool = False  # there is something to place between the words of the translation


def make_line(
    run: Run,
    span: Span,
    masks: Sequence[Mask],
    stand_ins: StandIns,
    hidden: frozenset[Mask] = frozenset(),
    form: Literal["", "small", "given"] = "",
    language: str = "",
) -> Line | None:
    """Returns the line of a part; None if there are not enough stand-ins for its masks.

    `hidden`: the masks that the model did not copy as they are; `form`: the capitals of a short text, `short.Form`.
    """
    start, end = span
    text = run.text[start:end]
    names = (pair for pair in stand_ins.names if pair[0] not in text)
    numbers = (pair for pair in stand_ins.numbers if pair[0] not in text)
    signs: list[str] = []
    origin: list[int] = []
    line = Line("", origin, [], [], [], [], casing.is_shouted("".join(run.outside(*span))), False, False, "", "")

    def add(piece: str, place: int, fixed: bool) -> None:
        signs.extend(piece)
        origin.extend([place] * len(piece) if fixed else range(place, place + len(piece)))

    place = start
    for mask in [*masks, None]:
        add(run.text[place : mask.start if mask else end], place, fixed=False)
        if mask is None:
            break
        if mask.kind == "soft":
            line.softs.append(mask)
            if signs and not signs[-1].isspace():
                add(" ", mask.start, fixed=True)
        elif mask.anchor:
            line.anchors.append(mask)
            if (not signs or signs[-1].isspace()) and run.text[mask.end : mask.end + 1].isspace() and signs:
                signs.pop()
                origin.pop()
        elif mask.verbatim and mask not in hidden:
            line.shown.append(mask)
            add(run.text[mask.start : mask.end], mask.start, fixed=False)
        else:
            pair = next(numbers if mask.kind in ("number", "count") else names, None)
            if pair is None:
                return None
            line.stood.append((mask, pair, (len(signs), len(signs) + len(pair[0]))))
            add(pair[0], mask.start, fixed=True)
        place = mask.end
    line.linked = bool(run.tags or run.masks)
    given = _OTHER_BLANK.sub(" ", "".join(signs))
    if line.shouted and form != "given":
        given = _calm(given, [place for _, _, place in line.stood], language)
    elif not line.shouted:
        line.small = casing.starts_small(given)
        line.capital = given[:1].isupper()
    if form == "small" and len(small := fold_case(given, language)) == len(given):
        given = small
    given = _APOSTROPHE.sub("'", given)
    match = _STOP.search(given)
    line.last = match.group() if match else ""
    if not match and PLAIN_SCRIPT.search(given):
        line.stop = "."
        origin.append(origin[-1])
    line.text = given + line.stop
    return line


def _calm(text: str, kept: Iterable[Span], language: str) -> str:
    small = list(casing.calm(text, language))
    for begin, end in kept:
        small[begin:end] = text[begin:end]
    return "".join(small)
