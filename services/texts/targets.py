"""A line's translation as a part of the user's text: where its masks, terms and line feeds are, and its links."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import regex

from dragoman.model.inference.translator import Translation
from dragoman.model.text.letters import capitalise, upper_case
from dragoman.services.texts import casing
from dragoman.services.texts.lines import PLAIN_SCRIPT, Line
from dragoman.services.texts.runs import Mask, Place, Span

MARKS = ".,;:!?…\"'”’»)]"
_MANY_STOPS, _MANY_STOPS_END = regex.compile(r"[.!?…]*[.!?]{2}|…"), regex.compile(r"[.!?…]+$")
_PIECE = regex.compile(r"[\[(]*[^/\\|+:–—\[(-]+")
MOST_ENDING = 3  # letters of an ending


@dataclass(eq=False)
class Target:
    """A part's translation: a text, masks in it by place, and which words come from which."""

    text: str
    places: list[Place] = field(default_factory=list)
    links: list[tuple[Span, Span]] = field(default_factory=list)  # (in the text, in the run)
    aligned: bool = False  # the links are the model's, not a guess
    lost: list[Mask] = field(default_factory=list)


def read_translation(line: Line, translation: Translation, text: str, target: str) -> Target:
    """Returns what a translation's `text` (the best one's, or an alternative's) becomes, with the masks it lost."""
    translated = Target(text)
    taken: list[Span] = []
    for mask, pair, _ in line.stood:
        spot = _only(text, pair[1], taken)
        if spot is None:
            translated.lost.append(mask)
        else:
            taken.append(spot)
            translated.places.append(Place(*spot, mask, "stand-in"))
    for mask in line.shown:
        if mask.kind == "term":
            continue
        spot = _first(text, mask.raw, taken)
        if spot is None or _count(text, mask.raw) != sum(other.raw == mask.raw for other in line.shown):
            translated.lost.append(mask)
        else:
            taken.append(spot)
            translated.places.append(Place(*spot, mask, "copied"))
    if line.linked:
        pairs = _pairs(translated, line, translation if text == translation.text else None)
        for mask in line.shown:
            if mask.kind == "term":
                _place_term(translated, line, mask, pairs, target)
        _link(translated, line, pairs)
    _repair_end(translated, line)
    if line.shouted:
        _shout(translated, target)
    elif line.small and not any(place.start == 0 for place in translated.places):
        translated.text = casing.small_first(translated.text, target)
    elif (
        line.capital
        and len(translated.text[:1].upper()) == 1
        and not any(place.start == 0 for place in translated.places)
    ):
        translated.text = capitalise(translated.text, target)
    for mask in line.softs:
        _put_break(translated, (mask.start - line.origin[0]) / max(1, line.origin[-1] - line.origin[0]), mask)
    translated.places.sort(key=lambda place: place.start)
    return translated


def _pattern(text: str) -> "regex.Pattern[str]":
    before = r"(?<![\p{L}\p{N}])" if text[:1].isalnum() else r"(?<!\p{Nd}[.,])"
    after = r"(?![\p{L}\p{N}])(?![.,]\p{Nd})" if text[-1:].isalnum() else ""
    return regex.compile(before + regex.escape(text, special_only=True) + after)


def _count(text: str, part: str) -> int:
    return len(_pattern(part).findall(text))


def _only(text: str, forms: Sequence[str], taken: Sequence[Span]) -> Span | None:
    """Returns the place of a word that is in a text exactly once, in one of its forms."""
    if text.count(min(forms, key=len)) != 1:
        return None
    return next(filter(None, (_first(text, form, taken) for form in forms)), None)


def _first(text: str, part: str, taken: Sequence[Span]) -> Span | None:
    for match in _pattern(part).finditer(text):
        if not any(begin < match.end() and match.start() < end for begin, end in taken):
            begin, end = match.span()
            return begin, end
    return None


def _pairs(target: Target, line: Line, translation: Translation | None) -> list[tuple[Span, Span]]:
    """Returns which words of the translation come from which of the line: by attention, else along the diagonal."""
    attention = translation.attention[0] if translation and translation.attention else None
    target.aligned = attention is not None
    if attention is not None:
        sources = _spans(attention.source_tokens, line.text)
        targets = _spans(attention.target_tokens, target.text)
        pairs = [
            (targets[right], sources[left])
            for left, right in attention.pairs
            if _has_sign(attention.target_tokens[right]) or not _has_sign(attention.source_tokens[left])
        ]  # a mark that looked at a word says nothing about its place
    else:
        sources, targets = _words(line.text), _words(target.text)
        scale = (len(sources) - 1) / max(1, len(targets) - 1)
        pairs = [(span, sources[round(at * scale)]) for at, span in enumerate(targets)] if sources else []
    return [(right, left) for right, left in pairs if right is not None and left is not None]


def _has_sign(word: str) -> bool:
    return any(map(str.isalnum, word))


def _link(target: Target, line: Line, pairs: Sequence[tuple[Span, Span]]) -> None:
    """Adds the links of words; a mask has none but its own."""
    stood = [spot for _, _, spot in line.stood]
    for right, left in (piece for pair in pairs for piece in _pieces(target.text, line.text, *pair)):
        start, end = line.origin[left[0]], line.origin[min(left[1], len(line.origin)) - 1] + 1
        met = sorted(
            (place for place in target.places if _meet(right, (place.start, place.end))), key=lambda place: place.start
        )
        if met and start <= met[0].unit.start and met[-1].unit.end <= end:  # what is beside a mask in one word
            sides = (
                ((right[0], met[0].start), (start, met[0].unit.start)),
                ((met[-1].end, right[1]), (met[-1].unit.end, end)),
            )
            target.links += [(first, other) for first, other in sides if first[0] < first[1] and other[0] < other[1]]
        elif not met and not any(_meet(left, spot) for spot in stood):
            target.links.append((right, (start, end)))
    exact = {place.unit: (place.start, place.end) for place in target.places}
    target.links += [(spot, (mask.start, mask.end)) for mask, spot in exact.items()]
    target.links.sort()


def _pieces(text: str, source: str, right: Span, left: Span) -> list[tuple[Span, Span]]:
    """Returns what belongs together in two words that a stroke or a hyphen divides in the same way."""
    sources = [match.span() for match in _PIECE.finditer(source, *left)]
    targets = [match.span() for match in _PIECE.finditer(text, *right)] if len(sources) > 1 else []
    return list(zip(targets, sources, strict=True)) if targets and len(targets) == len(sources) else [(right, left)]


def _place_term(target: Target, line: Line, mask: Mask, pairs: Sequence[tuple[Span, Span]], language: str) -> None:
    """Puts a term's translation where the model put its own; an inflected form of it stays."""
    taken = [(place.start, place.end) for place in target.places]
    words = [span for span in _words(target.text) if span and not any(_meet(span, other) for other in taken)]
    term = mask.raw.casefold()
    free = _first(target.text.casefold(), term, taken) if len(target.text.casefold()) == len(target.text) else None
    if free is not None:
        target.places.append(Place(*free, mask, "copied", target.text[free[0] : free[1]]))
        return
    hits = sorted(
        right
        for right, left in pairs
        if mask.start <= line.origin[left[0]] < mask.end and not any(_meet(right, other) for other in taken)
    )
    for begin, end in words if " " not in term else ():
        core = target.text[begin:end].rstrip(MARKS)
        longer = len(term) > 3 and core.casefold().startswith(term) and len(core) <= len(term) + MOST_ENDING
        if longer or (
            (begin, end) in hits and target.aligned and casing.lemma(core, language) == casing.lemma(term, language)
        ):
            target.places.append(Place(begin, begin + len(core), mask, "inflected", core))
            return
    hits = [span for span in hits if any(sign.isalnum() for sign in target.text[span[0] : span[1]])]
    if not target.aligned or not hits:
        target.lost.append(mask)
        return
    start, end = hits[0]
    for begin, stop in hits[1:]:
        if target.text[end:begin].strip():
            break
        end = stop
    target.places.append(Place(start, start + len(target.text[start:end].rstrip(MARKS)), mask, "aligned"))


def _meet(first: Span, other: Span) -> bool:
    return first[0] < other[1] and other[0] < first[1]


def _words(text: str) -> list[Span | None]:
    return [match.span() for match in regex.finditer(r"\S+", text)]


def _spans(words: Sequence[str], text: str) -> list[Span | None]:
    """Returns the places of an attention's words in their text; None for those that are written otherwise."""
    spans: list[Span | None] = []
    place = 0
    for word in words:
        at = text.find(word, place)
        spans.append(None if at < 0 else (at, at + len(word)))
        place = place if at < 0 else at + len(word)
    return spans


def _repair_end(target: Target, line: Line) -> None:
    """Removes a full stop that the source has not, and adds one that it has."""
    text = target.text
    body = text.rstrip()
    protected = max((place.end for place in target.places), default=0)
    if not line.last:
        while body.endswith((".", "。", "।")) and len(body) > max(1, protected) and not body.endswith(".."):
            body = body[:-1].rstrip()
    elif _MANY_STOPS.fullmatch(line.last) and (found_stop := _MANY_STOPS_END.search(body, protected)):
        body = body[: found_stop.start()] + line.last
    elif line.last in (".", "!", "?") and body[-1:].isalpha() and PLAIN_SCRIPT.match(body[-1]):
        body += line.last
    target.text = body
    clipped = (((right[0], min(right[1], len(body))), left) for right, left in target.links)
    target.links = [(right, left) for right, left in clipped if right[0] < right[1]]


def _shout(target: Target, language: str) -> None:
    """Puts a text in capitals, but for its masks; a ß is two of them."""
    offsets, signs, length = [], [], 0
    for at, sign in enumerate(target.text):
        offsets.append(length)
        kept = any(place.start <= at < place.end for place in target.places)
        signs.append(sign if kept else upper_case(sign, language))
        length += len(signs[-1])
    offsets.append(length)

    def move(span: Span) -> Span:
        return offsets[span[0]], offsets[span[1]]

    target.text = "".join(signs)
    for place in target.places:
        place.start, place.end = move((place.start, place.end))
    target.links = [(move(right), left) for right, left in target.links]


def _put_break(target: Target, share: float, mask: Mask) -> None:
    """Puts a line feed at the blank that is nearest to this share of the text."""
    taken = [(place.start, place.end) for place in target.places]
    free = (
        at
        for at, sign in enumerate(target.text)
        if sign == " " and not any(_meet((at, at + 1), span) for span in taken)
    )
    at = min(free, key=lambda place: abs(place - share * len(target.text)), default=-1)
    if at >= 0:
        target.places.append(Place(at, at + 1, mask, "copied"))
