"""Finds the inline units that make one word with their text, and the places where no sentence goes on.

`m<sup>2</sup>` is one word, the mark of a note belongs to the word before it, a plural holds the tags of its branches,
and elements side by side (menus, badges) are apart, as a browser shows them.
"""

import itertools
from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import regex

from dragoman.model.text.units import UNITS
from dragoman.services.texts import icu
from dragoman.services.texts.protected import find_masks, has_letter, is_ordinary
from dragoman.services.texts.runs import Mask, Node, Run, Span, Tag, ordered

RAISED = frozenset(("sup", "sub"))
COPIED = frozenset(("sup", "sub", "kbd"))  # what touches a word in them is copied with it
RUBY = frozenset(("rt", "rp"))  # a word's sound is no part of the word
APART = frozenset(("a", "label", "button", "option", "ins", "del"))  # two of them side by side are two texts
BREAKS = frozenset(("break", "element", "emoji", "entity", "image", "symbol"))
KEYS = frozenset(("code", "kbd", "samp", "var"))
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+(?:['’][\p{L}\p{M}\p{N}]+)*")
_REFERENCE = regex.compile(r"[\[(](?:\p{N}{1,3}|\p{Ll}{1,4})[\])]|\p{N}{1,3}|[*†‡§]{1,3}")
_NATURAL = regex.compile(r"\p{L}(?:\p{Ll}|\p{Lo}|\p{M}){2,}+$")  # no formula, no unit
_UNIT = regex.compile(rf"(?<![\w])(?:{UNITS})$")
MOST_INSIDE = 2  # tags inside of a word that are put around all of it
_OPENERS = "([{\"'“‘«„¿¡"
_FEED, _BLANKS = regex.compile(r"[\t-\r\x1c-\x1e\x85\u2028\u2029]"), regex.compile(r"\s++")  # what ends a line
# Between two letters, what is no word is the end of a text, but for these.
_WITHIN = regex.compile(r"<(?:!--|wbr\b|[se]c\b|[be]x\b|[be]pt\b|it\b)")
_JOINTS = regex.compile(r"[+/:.@&_~-]{1,2}")


def bind(run: Run, counts: bool = False) -> Run:
    """Returns the run with all its units, none of which begins or ends inside of another one or of a word.

    `counts`: a # stands for a number, as in a plural's branch.
    """
    if not (run.masks or run.tags or counts) and is_ordinary(run.text) and not _FEED.search(run.text):
        return run
    _take_references(run)
    run.borders = _borders(run)
    masks = (mask for edge in _between(run) for mask in find_masks(run.text, *edge))
    if run.form.kind == "html":  # a reader of the page sees such a tag as a word, and such an entity
        words = {"<": "tag", "&": "entity"}
        masks = (replace(m, kind=words[m.raw[0]], anchor=False) if m.raw[0] in words else m for m in masks)
    _merge(run, masks)
    if counts:
        _merge(run, (Mask(at, at + 1, "count", "#") for at, sign in enumerate(run.text) if sign == "#"))
    _merge(run, _feeds(run))
    run.borders = sorted({*run.borders, *_breaks(run)})
    _glue(run)
    return run


def _between(run: Run) -> Iterator[Span]:
    return itertools.pairwise((0, *run.borders, len(run.text)))


def _breaks(run: Run) -> Iterator[int]:
    """Yields where a break, an image or an emoji stands between two letters."""
    for mask in run.masks:
        before, after = run.text[mask.start - 1 : mask.start], run.text[mask.end : mask.end + 1]
        within = before.isalnum() if mask.raw.startswith("<input") else before.isalpha() and after.isalpha()
        if within and mask.anchor and mask.kind in BREAKS and not _WITHIN.match(mask.raw):
            yield mask.start


def _feeds(run: Run) -> Iterator[Mask]:
    """Yields the ends of lines, with the blanks around them: blanks of a sentence that are written as they were."""
    edges = {0, len(run.text), *(place for tag in run.tags for place in (tag.start, tag.end))}
    for edge in itertools.pairwise(sorted(edges)) if _FEED.search(run.text) else ():
        for blanks in _BLANKS.finditer(run.text, *edge):
            if _FEED.search(blanks.group()):
                yield Mask(blanks.start(), blanks.end(), "soft", blanks.group(), anchor=True)


def _merge(run: Run, masks: Iterable[Mask]) -> None:
    """Adds what plain text has to the units of the reader; a message takes those that stand in it."""
    units, kept, gone = deque(run.masks), list[Mask](), set[int]()
    for mask in masks:
        if kept and mask.start < kept[-1].end:
            continue
        while units and units[0].end <= mask.start:
            kept.append(units.popleft())
        inside = []
        while units and units[0].start < mask.end:
            inside.append(units.popleft())
        if mask.kind == "message":
            gone |= set(map(id, _fill(run, mask, inside)))
        elif inside:
            kept += inside
            continue
        else:
            mask.raw = run.form.write(mask.raw)
        kept.append(mask)
    run.masks = [*kept, *units]
    run.tags = [tag for tag in run.tags if id(tag) not in gone] if gone else run.tags


def _fill(run: Run, message: Mask, masks: Sequence[Mask]) -> list[Tag]:
    """Gives a message its branches, with the units in them; one whose syntax a unit divides stays as it is.

    Returns the tags that are a part of the message.
    """
    tags = run.tags_inside(message.start, message.end)
    within = Run(run.text, list(masks), tags, run.form)
    message.raw = within.source(message.start, message.end, tags)
    read = icu.read_message(run.text[message.start : message.end], 0)
    nodes: list[Node] = []
    place, taken = message.start, 0
    for translatable, text in read[0] if read else ():
        end = place + len(text)
        own = [tag for tag in tags if place <= tag.start and tag.end <= end] if translatable else []
        inner = within.inside(place, end) if translatable else []
        taken += len(own) + len(inner)
        if translatable and has_letter(text):
            within_branch = [replace(mask, start=mask.start - place, end=mask.end - place) for mask in inner]
            around = [replace(tag, start=tag.start - place, end=tag.end - place) for tag in own]
            parsed = run.parsed and (None, *run.parsed[1:])
            branch = Run(text, within_branch, ordered(around), run.form, run.split_lines, parsed=parsed)
            nodes.append(bind(branch, counts=True))
        else:
            nodes.append(within.source(place, end, own))
        place = end
    if taken == len(tags) + len(masks):
        message.inner = nodes
    return tags


def _take_references(run: Run) -> None:
    """Makes the mark of a note behind a word or a stop a unit that is no word."""
    references: dict[Span, list[Tag]] = defaultdict(list)
    gone, units = set[int](), list[Mask]()
    for tag in run.tags:
        if tag.end - tag.start <= 6 and _REFERENCE.fullmatch(run.text, tag.start, tag.end):
            references[tag.start, tag.end].append(tag)
    closed = {tag.end for tag in run.tags if tag.start < tag.end} if references else set()
    for (start, end), tags in references.items():
        badge = start in closed and not any(tag.name in RAISED for tag in tags)
        if badge or len(run.tags_inside(start, end)) > len(tags):
            continue
        before, after = run.text[max(0, start - 40) : start], run.text[end : end + 1]
        word = _NATURAL.search(before) is not None and _UNIT.search(before) is None
        stop = before[-1:] in tuple(".,;:!?…\"'”’»)") and not before[-2:-1].isdigit()
        if (word or stop) and not after.isalnum() and not run.inside(start, end):
            units.append(Mask(start, end, "reference", run.source(start, end, tags), anchor=True))
            gone |= set(map(id, tags))
    if gone:
        run.tags = [tag for tag in run.tags if id(tag) not in gone]
        run.add_masks(units)


def _borders(run: Run) -> list[int]:
    """Returns where elements stand side by side without a blank, as two texts."""
    if run.form.kind == "xml":
        return []
    starts, ends = defaultdict[int, set[str]](set), defaultdict[int, set[str]](set)
    text = run.text
    for tag in run.tags:
        named = tag.name in APART | RUBY | RAISED or text.find(" ", tag.start, tag.end) >= 0
        name = tag.name if named else ""  # of letters in a word: <b>Java</b>Script
        starts[tag.start].add(name)
        ends[tag.end].add(name)
    borders = set[int]()
    for place in starts.keys() | ends.keys():
        counted = text[place : place + 1].isdigit() and not starts[place] and not ends[place] & RAISED
        counted = counted and _NATURAL.search(text, max(0, place - 12), place) is not None  # <b>Total</b>5
        if counted or _divides(text[max(0, place - 2) : place], text[place : place + 2], ends[place], starts[place]):
            borders.add(place)
    return sorted(borders - {0, len(text)})


def _divides(left: str, right: str, closed: set[str], opened: set[str]) -> bool:
    """Returns True if elements that end and begin between two characters are two texts."""
    if (closed | opened) & RUBY:
        return True
    last, other = left[-1:], right[:1]
    if not last or last.isspace() or not (other.isalnum() or other in "$€£¥") or (closed | opened) & RAISED:
        return False
    if not (closed and opened):
        return (
            (closed | opened) != {""}
            and left.isalpha()
            and right.isalpha()
            and len(left + right) == 4
            and last.islower()
            and other.isupper()
        )
    if last.isalpha() and (other.islower() or (not other.isupper() and other.isalpha())):
        return bool(closed & APART and opened & APART)
    return not (last in _OPENERS or (other.isdigit() and not last.isalpha()))


def _glue(run: Run) -> None:
    """Makes one unit of a word that tags divide, or puts these around all of it."""
    edges = {place for tag in run.tags for place in (tag.start, tag.end)} - set(run.borders)
    if not edges and not run.masks:
        return
    at: dict[int, list[Tag]] = defaultdict(list)
    for tag in run.tags:
        at[tag.start].append(tag)
        at[tag.end].append(tag)
    places, gone, masks = sorted(edges), set[int](), set[int]()
    glued: list[Mask] = []
    for start, end, inside in _words(run):
        within = places[bisect_right(places, start) : bisect_left(places, end)]
        tags = {id(tag): tag for place in within for tag in at[place]}
        keys = len(inside) > 1 or any(_is_key(mask) and (mask.start, mask.end) != (start, end) for mask in inside)
        if not tags and not keys:
            continue
        inner = {key: tag for key, tag in tags.items() if start <= tag.start and tag.end <= end}
        copied = keys or (bool(inner) and (bool(inside) or any(map(str.isdigit, run.text[start:end]))))
        if copied or len(inner) > MOST_INSIDE or any(tag.name in COPIED for tag in inner.values()):
            held = run.inside(start, end)
            units = [mask for mask in held if _holds_none(places, mask.start, mask.end)]
            whole = [tag for tag in run.tags_inside(start, end) if id(tag) in inner]
            glued.append(Mask(start, end, "glued", Run(run.text, units, form=run.form).source(start, end, whole)))
            gone |= inner.keys()
            masks |= set(map(id, held))
        for key, tag in tags.items():
            if key not in gone and (tag.start, tag.end) != (start, start + 1):  # a first letter stays one
                tag.start = start if start < tag.start < end else tag.start
                tag.end = end if start < tag.end < end else tag.end
    run.tags = ordered(tag for tag in run.tags if id(tag) not in gone)
    kept = (mask for mask in run.masks if id(mask) not in masks)
    run.masks = list(kept)
    run.add_masks(glued)


def _holds_none(edges: Sequence[int], start: int, end: int) -> bool:
    return bisect_right(edges, start) == bisect_left(edges, end)


def _is_key(mask: Mask) -> bool:
    return mask.kind == "code" and not mask.anchor


def _words(run: Run) -> list[tuple[int, int, list[Mask]]]:
    """Returns the words of a run, with the masks that are a part of each."""
    spans: list[tuple[int, int, Mask | None]]
    spans = [(*match.span(), None) for edge in _between(run) for match in _WORD.finditer(run.text, *edge)]
    spans += [(mask.start, mask.end, mask) for mask in run.masks if not mask.anchor]
    spans.sort(key=lambda span: span[:2])
    borders = set(run.borders)
    anchors = {mask.start for mask in run.masks if mask.anchor}
    words: list[tuple[int, int, list[Mask]]] = []
    for start, end, mask in spans:
        if mask is None and start in anchors:  # the mark of a note is a digit
            continue
        begin, stop, masks = words[-1] if words else (0, -1, [])
        keys = int(mask is not None and _is_key(mask)), int(bool(masks) and _is_key(masks[-1]))
        touching = start == stop and start not in borders and any(keys)
        if start < stop or touching or (all(keys) and _JOINTS.fullmatch(run.text, stop, start)):
            masks += [mask] if mask else []
            words[-1] = begin, max(stop, end), masks
        else:
            words.append((start, end, [mask] if mask else []))
    return words
