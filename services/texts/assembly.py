"""A run's translation from its parts: masks in their places, tags around the words that became theirs."""

import itertools
import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from dragoman.services.texts.parts import Part, RunState
from dragoman.services.texts.protected import has_letter
from dragoman.services.texts.runs import Mask, Span, Tag
from dragoman.services.texts.targets import MARKS, Place, Target


@dataclass(eq=False)
class Placed:
    """A tag around a part of the translation."""

    tag: Tag
    start: int
    end: int
    how: str  # kept, aligned, guessed
    inner: list["Placed"] = field(default_factory=list)


@dataclass(frozen=True)
class Written:
    """A mask or a tag, and its place in the answer, in characters."""

    what: Mask | Tag
    start: int
    end: int
    how: str

    def moved(self, by: int) -> "Written":
        """Returns it in a text that is put so far into another."""
        return replace(self, start=self.start + by, end=self.end + by) if by else self


@dataclass(eq=False)
class Assembly:
    """A run's translation before it is written: a text, masks by place, the source of every piece."""

    text: str
    places: list[Place]
    pieces: list[tuple[Span, Span, Target | None]]  # (in the run, in the text, None: copied)

    def inside(self, start: int, end: int) -> Iterator[tuple[Span, Span, Target | None]]:
        """Yields the pieces of a part of the run."""
        first = bisect_left(self.pieces, start, key=lambda piece: piece[0][1])
        return itertools.takewhile(lambda piece: piece[0][0] <= end, itertools.islice(self.pieces, first, None))


def assemble(state: RunState, chosen: "dict[Part, Target] | None" = None) -> Assembly:
    """Returns the run with the translations of its parts; `chosen` replaces some of them by alternatives."""
    found = Assembly("", [], [])
    place = 0
    for part in state.parts:
        target = (chosen or {}).get(part, part.target)
        assert target is not None
        _copy(found, state, place, part.span[0])
        _add(found, state, part, target)
        place = part.span[1]
    _copy(found, state, place, len(state.run.text))
    return found


def _copy(found: Assembly, state: RunState, start: int, end: int) -> None:
    if start == end:
        return
    at = len(found.text)
    for mask in state.masks((start, end)):
        how = "cut" if mask in state.cut else "copied"
        found.places.append(Place(at + mask.start - start, at + mask.end - start, mask, how))
    found.text += state.run.text[start:end]
    found.pieces.append(((start, end), (at, len(found.text)), None))


def _add(found: Assembly, state: RunState, part: Part, target: Target) -> None:
    at = len(found.text)
    places = [Place(at + one.start, at + one.end, one.mask, one.how, one.written) for one in target.places]
    places += [Place(at + start, at + end, mask, "copied") for start, end, mask in target.breaks]
    taken = {one.mask for one in places}
    masks = [mask for mask in state.masks(part.span) if mask not in taken]
    for mask in masks:  # anchors, and what the model lost all the same
        places.append(_put(state, target, mask, at))
    found.places += sorted(places, key=lambda one: (one.start, one.end, one.mask.start))
    found.text += target.text
    found.pieces.append((part.span, (at, len(found.text)), target))


def _put(state: RunState, target: Target, mask: Mask, at: int) -> Place:
    """Returns a place between words for a mask that is in no word of the translation."""
    text = state.run.text
    before = text[mask.start - 1 : mask.start].isspace() if mask.start else True
    after = text[mask.end : mask.end + 1].isspace() or mask.end >= len(text)
    head, tail = text[: mask.start], text[mask.end :]
    nearer = len(head) - len(head.rstrip()) < len(tail) - len(tail.lstrip())
    place, _ = point(target, mask.start, mask.end, glued=nearer)
    beside, following = target.text[place - 1 : place], target.text[place : place + 1]
    lead = " " if (before or not mask.anchor) and beside and not beside.isspace() else ""
    apart = after or not mask.anchor or (following.isalnum() and not text[mask.end : mask.end + 1].isalnum())
    wanted = (apart and following not in MARKS) or (after and beside.isspace())
    tail = " " if wanted and following and not following.isspace() else ""
    raw = f"{lead}{mask.raw}{tail}"
    return Place(at + place, at + place, mask, "aligned" if target.aligned else "guessed", raw)


def point(target: Target, start: int, end: int, glued: bool) -> tuple[int, bool]:
    """Returns where in a translation something between words belongs, and whether that is the end of a word.

    `glued`: it follows its word without a blank, and so does it here.
    """
    taken = [(place.start, place.end) for place in target.places]
    following = min(((left, right) for right, left in target.links if left[0] >= end), default=None)
    previous = max(((left, right) for right, left in target.links if left[1] <= start), default=None)
    if (following is not None and not glued) or (previous is None and following is not None):
        place, left = following[1][0], False
    elif previous is not None:
        place, left = previous[1][1], True
    else:
        place, left = len(target.text), True
    for begin, stop in taken:
        if begin < place < stop:
            place, left = stop, True
    return place, left


def place_tags(state: RunState, found: Assembly) -> list[Placed]:
    """Returns the tags of a run around their words in the translation, each once and properly nested."""
    roots: list[Placed] = []
    open_tags: list[Placed] = []
    everything: list[Placed] = []
    for tag in state.run.tags:
        start, end, how = _range(state, found, tag)
        placed = Placed(tag, start, end, how)
        while open_tags and open_tags[-1].tag.depth >= tag.depth:
            open_tags.pop()
        (open_tags[-1].inner if open_tags else roots).append(placed)
        open_tags.append(placed)
        everything.append(placed)
    for placed in reversed(everything):  # inner ones first: an outer tag holds them
        full = [one for one in placed.inner if one.start < one.end]
        if full and placed.start < placed.end:
            placed.start = min(placed.start, *(one.start for one in full))
            placed.end = max(placed.end, *(one.end for one in full))
        elif full:
            placed.start, placed.end = min(one.start for one in full), max(one.end for one in full)
    _part(roots, 0, len(found.text))
    for placed in everything:
        _part(placed.inner, placed.start, placed.end)
    return roots


def _part(siblings: list[Placed], start: int, end: int) -> None:
    """Makes siblings lie inside of their outer tag and apart from each other."""
    siblings.sort(key=lambda one: (one.start, one.end))
    place = start
    for number, one in enumerate(siblings):
        later = itertools.islice(siblings, number + 1, None)
        following = next((other.start for other in later if other.start > one.start), end)
        one.start = min(max(one.start, place), end)
        one.end = max(one.start, min(one.end, end, max(following, one.start)))
        place = one.end


def _range(state: RunState, found: Assembly, tag: Tag) -> tuple[int, int, str]:
    """Returns where a tag begins and ends in the translation, and how that is known."""
    if tag.start == tag.end:
        return _empty(found, tag)
    spans: list[Span] = []
    how = "kept"
    for source, target, translated in found.inside(tag.start, tag.end):
        start, end = max(source[0], tag.start), min(source[1], tag.end)
        if start >= end:
            continue
        if translated is None:
            spans.append((target[0] + start - source[0], target[0] + end - source[0]))
            continue
        if (start, end) == source:
            spans.append(target)
            continue
        before, after = state.run.text[source[0] : start], state.run.text[end : source[1]]
        if not has_letter(before + after) and not translated.places:
            shift = len(after) if found.text[target[0] : target[1]].endswith(after) else 0
            lead = len(before) if found.text[target[0] : target[1]].startswith(before) else 0
            spans.append((target[0] + lead, target[1] - shift))
            continue
        words, others = _sides(translated, start, end)
        first = next((right for right, left in translated.links if left[0] == start), None)
        if end - start == 1 and first and state.run.text[start].isalpha() and state.run.text[end : end + 1].isalpha():
            words, others = [(first[0], first[0] + 1)], []  # the first letter of a word
        span = _cluster(words, others)
        if span is None:
            place, _ = point(translated, start, end, glued=False)
            how = "guessed"
            spans.append((target[0] + place, target[0] + place))
            continue
        how = ("aligned" if translated.aligned else "guessed") if how == "kept" else how
        begin = target[0] if tag.start < source[0] else target[0] + span[0]
        stop = target[1] if tag.end > source[1] else target[0] + span[1]
        spans.append((begin, stop))
    if not spans:
        return 0, 0, "guessed"
    full = [span for span in spans if span[0] < span[1]] or spans[:1]
    return min(start for start, _ in full), max(end for _, end in full), how


def _sides(target: Target, start: int, end: int) -> tuple[list[Span], list[Span]]:
    """Returns the words that come from a part of the run, without marks beyond it, and all others."""
    words, others = [], []
    for right, left in target.links:
        if not start <= (left[0] + left[1] - 1) / 2 < end:
            others.append(right)
            continue
        text = target.text[right[0] : right[1]]
        lead = _marks(text, start - left[0])
        tail = _marks(text[::-1], left[1] - end)
        words.append((right[0] + lead, max(right[0] + lead, right[1] - tail)))
    return words, others


def _marks(text: str, most: int) -> int:
    """Returns how many marks a word begins with, so many at most."""
    return next((at for at, sign in enumerate(text[: max(0, most)]) if sign.isalnum()), max(0, min(most, len(text))))


def _empty(found: Assembly, tag: Tag) -> tuple[int, int, str]:
    for source, target, translated in found.inside(tag.start, tag.start):
        if translated is None and source[0] <= tag.start <= source[1]:
            place = target[0] + tag.start - source[0]
            return place, place, "kept"
    for source, target, translated in found.inside(tag.start, tag.start):
        if translated is not None and source[0] <= tag.start <= source[1]:
            if tag.start in source:
                place = target[0] if tag.start == source[0] else target[1]
                return place, place, "kept"
            place = target[0] + point(translated, tag.start, tag.end, glued=False)[0]
            return place, place, "aligned" if translated.aligned else "guessed"
    return len(found.text), len(found.text), "kept"


def _cluster(words: Sequence[Span], others: Sequence[Span]) -> Span | None:
    """Returns the longest stretch of these words that no other word interrupts."""
    best: Span | None = None
    start = end = -1
    for word in sorted(words):
        if start >= 0 and not any(end <= other[0] < word[0] for other in others):
            end = max(end, word[1])
        else:
            start, end = word
        if best is None or end - start > best[1] - best[0]:
            best = start, end
    return best


class Writer:
    """Writes a run: text escaped, masks as they are, tags around their words; notes where everything went."""

    def __init__(self, state: RunState, found: Assembly) -> None:
        self.escape = state.run.form.write
        self.text = found.text
        self.places = sorted(found.places, key=lambda one: (one.start, one.end))
        self.out: list[str] = []
        self.length = 0
        self.done = 0  # the end of the last mask: a tag may begin inside of it
        self.written: list[Written] = []
        self.inner: dict[Mask | Tag, str] = {}

    def write(self, tags: Sequence[Placed]) -> str:
        """Returns the text with these tags."""
        self._write(tags, 0, len(self.text))
        return "".join(self.out)

    def _write(self, tags: Sequence[Placed], start: int, end: int, limit: float = math.inf) -> None:
        """Writes the text from `start` to `end` with these tags; `limit`: where that ends in the run."""
        place = start
        for tag in tags:
            self._plain(place, tag.start, tag.tag.start)
            begin = self.length
            self._add(self.inner.get(tag.tag, tag.tag.opening))
            self._write(tag.inner, tag.start, tag.end, tag.tag.end)
            self._add(tag.tag.closing)
            self.written.append(Written(tag.tag, begin, self.length, tag.how))
            place = tag.end
        self._plain(place, end, limit)

    def _add(self, text: str) -> None:
        self.out.append(text)
        self.length += len(text)

    def _plain(self, start: int, end: int, limit: float) -> None:
        """Writes text without tags; what stands at its end is of it if it stands before `limit` in the run."""
        while self.places and (
            (first := self.places[0]).start < end or (first.end <= end and first.mask.start < limit)
        ):
            one = self.places.pop(0)
            self._text(start, max(start, one.start))
            raw = one.mask.raw if one.written is None else one.written
            if one.mask in self.inner:
                raw = raw.replace(one.mask.raw, self.inner[one.mask], 1)
            begin = self.length
            self._add(raw)
            if one.mask.kind != "feed":
                lead = len(raw) - len(raw.lstrip(" "))
                tail = len(raw) - len(raw.rstrip(" ")) if raw.strip(" ") else 0
                self.written.append(Written(one.mask, begin + lead, begin + len(raw) - tail, one.how))
            self.done = max(self.done, one.end)
        self._text(start, max(start, end))

    def _text(self, start: int, end: int) -> None:
        start = max(start, self.done)
        if start < end:
            self._add(self.escape(self.text[start:end]))
