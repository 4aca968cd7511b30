"""A run's translation from its parts: masks in their places, tags around the words that became theirs."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

import regex

from dragoman.services.texts.parts import Part, RunState
from dragoman.services.texts.protected import has_letter
from dragoman.services.texts.runs import Mask, Place, Span, Tag, nest
from dragoman.services.texts.targets import MARKS, Target

_SIGNS, _SIGNS_BEFORE = regex.compile(r"[^\p{L}\p{M}\p{N}\s]+"), regex.compile(r"(?r)[^\p{L}\p{M}\p{N}\s]+$")


@dataclass(eq=False)
class Assembly:
    """A run's translation before it is written: a text, masks by place, the source of every piece."""

    text: str = ""
    places: list[Place] = field(default_factory=list)
    pieces: list[tuple[Span, Span, Target | None]] = field(default_factory=list)  # (run, text, None: copied)

    @property
    def length(self) -> int:
        """Returns the length of what it has pieces of."""
        return self.pieces[-1][1][1] if self.pieces else 0

    def inside(self, start: int, end: int) -> Sequence[tuple[Span, Span, Target | None]]:
        """Returns the pieces of a part of the run."""
        first = bisect_left(self.pieces, start, key=lambda piece: piece[0][1])
        return self.pieces[first : bisect_right(self.pieces, end, key=lambda piece: piece[0][0])]


def assemble(state: RunState, chosen: "dict[Part, Target] | None" = None) -> Assembly:
    """Returns the run with the translations of its parts; `chosen` replaces some of them by alternatives."""
    assembly, texts = Assembly(), list[str]()
    place = 0
    for part in state.parts:
        target = (chosen or {}).get(part, part.target)
        assert target is not None
        _copy(assembly, state, place, part.span[0], texts)
        _add(assembly, state, part, target, texts)
        place = part.span[1]
    _copy(assembly, state, place, len(state.run.text), texts)
    assembly.text = "".join(texts)
    return assembly


def _copy(assembly: Assembly, state: RunState, start: int, end: int, texts: list[str]) -> None:
    if start == end:
        return
    at = assembly.length
    for mask in state.masks((start, end)):
        how = "cut" if mask in state.cut else "copied"
        assembly.places.append(Place(at + mask.start - start, at + mask.end - start, mask, how))
    texts.append(state.run.text[start:end])
    assembly.pieces.append(((start, end), (at, at + end - start), None))


def _add(assembly: Assembly, state: RunState, part: Part, target: Target, texts: list[str]) -> None:
    at = assembly.length
    places = [place.moved(at) for place in target.places]
    taken = {place.unit for place in places}
    others = (mask for mask in state.masks(part.span) if mask not in taken)  # anchors, and what is lost all the same
    places += [_put(state, part, target, mask, at) for mask in others]
    assembly.places += sorted(places, key=lambda place: (place.start, place.end, place.unit.start))
    texts.append(target.text)
    assembly.pieces.append((part.span, (at, at + len(target.text)), target))


def _put(state: RunState, part: Part, target: Target, mask: Mask, at: int) -> Place:
    """Returns a place between words for a mask that is in no word of the translation."""
    text = state.run.text
    before = text[mask.start - 1 : mask.start].isspace() if mask.start else True
    after = text[mask.end : mask.end + 1].isspace() or mask.end >= len(text)
    head, tail = text[part.span[0] : mask.start], text[mask.end : part.span[1]]
    nearer = len(head) - len(head.rstrip()) < len(tail) - len(tail.lstrip())
    place = _within(target, state, mask) or point(target, mask.start, mask.end, glued=nearer)
    beside, following = target.text[place - 1 : place], target.text[place : place + 1]
    lead = " " if (before or not mask.anchor) and beside and not beside.isspace() else ""
    apart = after or not mask.anchor or (following.isalnum() and not text[mask.end : mask.end + 1].isalnum())
    needs_blank = (apart and following not in MARKS) or (after and beside.isspace())
    blank = " " if needs_blank and following and not following.isspace() else ""
    raw = f"{lead}{mask.raw}{blank}"
    return Place(at + place, at + place, mask, "aligned" if target.aligned else "guessed", raw)


def _within(target: Target, state: RunState, mask: Mask) -> int:
    """Returns where a unit stands in a word of the translation, between the signs around it; 0 if that is not known."""
    for right, left in target.links:
        if left[0] < mask.start < left[1]:
            before = _SIGNS_BEFORE.search("".join(state.run.outside(left[0], mask.start)))
            after = _SIGNS.match("".join(state.run.outside(mask.end, left[1])))
            signs = (before.group() if before else "") + (after.group() if after else "")
            at = target.text.find(signs, *right) if signs else -1
            if at >= 0 and target.text.find(signs, at + 1, right[1]) < 0:
                return at + len(before.group() if before else "")
    return 0


def point(target: Target, start: int, end: int, glued: bool = False) -> int:
    """Returns where in a translation something between words belongs.

    `glued`: it follows its word without a blank, and so does it here.
    """
    following = min(((left, right) for right, left in target.links if left[0] >= end), default=None)
    previous = max(((left, right) for right, left in target.links if left[1] <= start), default=None)
    if following is not None and (previous is None or not glued):
        place = following[1][0]
    else:
        place = len(target.text) if previous is None else previous[1][1]
    return next((taken.end for taken in target.places if taken.start < place < taken.end), place)


def place_tags(state: RunState, assembly: Assembly) -> list[Place]:
    """Returns the tags of a run around their words in the translation, each once and properly nested."""
    everything = [_range(state, assembly, tag) for tag in state.run.tags]
    roots = nest(everything)
    for place in reversed(everything):  # inner ones first: an outer tag holds them
        full = [inner for inner in place.inner if inner.start < inner.end]
        full += [place] if place.start < place.end else []
        if full:
            place.start, place.end = min(inner.start for inner in full), max(inner.end for inner in full)
    _part(roots, 0, len(assembly.text))
    for place in everything:
        _part(place.inner, place.start, place.end)
    return roots


def _part(siblings: list[Place], start: int, end: int) -> None:
    """Makes siblings lie inside of their outer tag and apart from each other."""
    siblings.sort(key=lambda sibling: (sibling.start, sibling.end))
    starts = [sibling.start for sibling in siblings]
    place = start
    for sibling in siblings:
        following = bisect_right(starts, sibling.start)
        limit = starts[following] if following < len(starts) else end
        sibling.start = min(max(sibling.start, place), end)
        sibling.end = max(sibling.start, min(sibling.end, end, limit))
        place = sibling.end


def _range(state: RunState, assembly: Assembly, tag: Tag) -> Place:
    """Returns where a tag begins and ends in the translation, and how that is known."""
    spans: list[Span] = []
    how = "kept"
    for source, target, translated in assembly.inside(tag.start, tag.end):
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
        if not has_letter(before + after) and all(place.unit.kind == "soft" for place in translated.places):
            shift = len(after) if assembly.text[target[0] : target[1]].endswith(after) else 0
            lead = len(before) if assembly.text[target[0] : target[1]].startswith(before) else 0
            spans.append((target[0] + lead, target[1] - shift))
            continue
        words, others = _sides(translated, state.run.text, start, end)
        first = next((right for right, left in translated.links if left[0] == start), None)
        if end - start == 1 and first and state.run.text[start].isalpha() and state.run.text[end : end + 1].isalpha():
            words, others = [(first[0], first[0] + 1)], []  # the first letter of a word
        span = _cluster(words, others)
        if span is None:
            place, how = target[0] + point(translated, start, end), "guessed"
            spans.append((place, place))
            continue
        how = ("aligned" if translated.aligned else "guessed") if how == "kept" else how
        begin = target[0] if tag.start < source[0] else target[0] + span[0]
        stop = target[1] if tag.end > source[1] else target[0] + span[1]
        spans.append((begin, stop))
    if not spans:
        return Place(0, 0, tag, "guessed")
    full = [span for span in spans if span[0] < span[1]] or spans[:1]
    return Place(min(start for start, _ in full), max(end for _, end in full), tag, how)


def _sides(target: Target, source: str, start: int, end: int) -> tuple[list[Span], list[Span]]:
    """Returns the words that come from a part of the run, without marks beyond it, and all others."""
    words, others = [], []
    for right, left in target.links:
        word, most = source[left[0] : left[1]], left[1] - left[0]
        if not start <= (left[0] + _marks(word, most) + left[1] - _marks(word[::-1], most) - 1) / 2 < end:
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
