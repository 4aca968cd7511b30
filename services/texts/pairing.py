"""Tags that stand in a text as characters: two that belong together become one tag around their words."""

import itertools
from bisect import bisect_right
from collections import Counter

from dragoman.services.texts.runs import Mask, Run, Tag


def pair_tags(run: Run) -> Run:
    """Returns the run with start and end tags (masks of the kind `tag`) as tags around words; others stay masks."""
    pairs = _pairs(run)
    if not pairs:
        return run
    gone = sorted((mask.start, mask.end) for pair in pairs for mask in pair)
    removed = {id(mask) for pair in pairs for mask in pair}

    ends = [end for _, end in gone]
    lengths = [0, *itertools.accumulate(end - start for start, end in gone)]

    def move(place: int) -> int:
        before = bisect_right(ends, place)  # nothing that is left begins or ends inside of a tag
        return place - lengths[before]

    tags = [Tag(move(tag.start), move(tag.end), tag.opening, tag.closing, inner=tag.inner) for tag in run.tags]
    tags += [Tag(move(first.end), move(last.start), first.raw, last.raw) for first, last in pairs]
    masks = [mask for mask in run.masks if id(mask) not in removed]
    for mask in masks:
        mask.start, mask.end = move(mask.start), move(mask.end)
    kept, place = [], 0
    for start, end in gone:
        kept.append(run.text[place:start])
        place = end
    run.text, run.masks, run.tags = "".join([*kept, run.text[place:]]), masks, _nested(tags)
    return run


def _pairs(run: Run) -> list[tuple[Mask, Mask]]:
    found: list[tuple[Mask, Mask]] = []
    waiting: list[Mask] = []
    names: Counter[str] = Counter()  # of those: most tags that end nothing need no search
    for mask in run.masks:
        if mask.kind != "tag" or mask.raw.startswith("<!"):
            continue
        if not mask.raw.startswith("</"):
            waiting.append(mask)
            names[_name(mask)] += 1
            continue
        if names[_name(mask)]:
            first = waiting.pop()
            names[_name(first)] -= 1
            while _name(first) != _name(mask):
                first = waiting.pop()
                names[_name(first)] -= 1
            if not any(_cross(tag, first.start, mask.end) for tag in run.tags):
                found.append((first, mask))
    return found


def _name(tag: Mask) -> str:
    words = tag.raw.strip("</>").split()
    return words[0].lower() if words else ""


def _cross(tag: Tag, start: int, end: int) -> bool:
    return tag.start < start < tag.end < end or start < tag.start < end < tag.end


def _nested(tags: list[Tag]) -> list[Tag]:
    """Returns the tags, outer ones before inner ones, with their depths."""
    ordered = sorted(tags, key=lambda tag: (tag.start, -tag.end))
    open_tags: list[Tag] = []
    for tag in ordered:
        while open_tags and open_tags[-1].end <= tag.start and open_tags[-1].end < tag.end:
            open_tags.pop()
        tag.depth = len(open_tags) + 1
        open_tags.append(tag)
    return ordered
