"""A run's parts on their way through the model. What a translation has lost is asked again by one ladder:

as asked, sentence by sentence, with the units hidden; the run is given back as it was where that does not help either.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import regex

from dragoman.model.inference.translator import Translation
from dragoman.model.languages import base_language
from dragoman.model.text.loops import collapse
from dragoman.services.texts import casing, lines, short
from dragoman.services.texts.lines import Line
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.protected import has_letter
from dragoman.services.texts.runs import Mask, Run, Span
from dragoman.services.texts.segmentation import count_sentences, cut, find_segments, shadow, trim
from dragoman.services.texts.stand_ins import StandIns
from dragoman.services.texts.targets import Target, read_translation

MOST_TRIES = 8  # a part is asked so often at most
SHORTEST = 16  # characters of a sentence that is cut at the model's limit
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}_]+(?:[-'’.][\p{L}\p{M}\p{N}_]+)*")
_LETTERS = regex.compile(r"\p{L}+")
QUOTES = '"“”„«»「」『』'  # of all languages: a translation may have those of its own
BRACKETS = "()[]（）"
_WIDE = str.maketrans("（）", "()")


@dataclass(eq=False)
class Part:
    """A sentence of a run, more of them if the client wants none to be cut, or what is left of one that was cut."""

    span: Span
    sentences: int = 1
    tries: int = 0
    hidden: set[Mask] = field(default_factory=set)  # masks that the model did not copy as they are
    forms: list[tuple[Line, Translation]] = field(default_factory=list)  # of a short text, as they were answered
    line: Line | None = None
    translation: Translation | None = None
    target: Target | None = None  # once it is final
    looped: bool = False
    truncated: bool = False
    untranslated: bool = False  # the model gave nothing: its text is the source's


@dataclass(eq=False)
class RunState:
    """A run and its parts, in order; what lies between parts stays as it is."""

    run: Run
    options: TextOptions
    language: str
    target: str
    longest: int
    parts: list[Part] = field(default_factory=list)
    sentences: int = 0
    cut: set[Mask] = field(default_factory=set)  # masks that a sentence was cut around
    limited: list[str] = field(default_factory=list)  # sentences that were cut at the model's limit
    written: "tuple[str, list[Any]] | None" = None  # the translation once it is checked, and where its units are
    simple: bool = False  # its units are outside of the sentences, since something was wrong with them inside
    problem: str = ""  # why it stays as it was

    def __post_init__(self) -> None:
        if self.run.unread:
            self.problem, self.written = self.run.unread, ("", [])
            return
        segments = find_segments(self.run, self.options, self.language, self.longest)
        self.parts = [Part((start, end), sentences) for start, end, sentences in segments]
        self.sentences = sum(part.sentences for part in self.parts)
        if [part.span for part in self.parts] != [(0, len(self.run.text))]:
            self._name_markers()

    def _name_markers(self) -> None:
        """Makes units of the letters that no sentence has: those of the markers a) and (b)."""
        edges = [0, *(place for part in self.parts for place in part.span), len(self.run.text)]
        gaps = ((start, end) for start, end in zip(edges[::2], edges[1::2], strict=True) if start < end)
        letters = [match.span() for gap in gaps for match in _LETTERS.finditer(self.run.text, *gap)]
        free = [span for span in letters if not self.run.touches(*span)]
        self.run.add_masks(Mask(start, end, "marker", self.run.text[start:end], anchor=True) for start, end in free)

    def masks(self, span: Span) -> list[Mask]:
        """Returns the masks inside of a part."""
        return self.run.inside(*span)

    def _covered(self, part: Part) -> list[Mask]:
        """Returns the masks that something else stands for in a part's line."""
        return [m for m in self.masks(part.span) if not m.anchor and (not m.verbatim or m in part.hidden)]

    def masked(self) -> bool:
        """Returns True if a part needs stand-ins."""
        return any(self._covered(part) for part in self.parts if part.target is None)

    def waiting(self, stand_ins: StandIns) -> list[Part]:
        """Returns the parts to ask the model for, with their lines."""
        ready: list[Part] = []
        for part in [part for part in self.parts if part.target is None]:
            part.line = self._make_line(part, stand_ins)
            pieces = [part] if part.line else self._cut(part, self._covered(part))
            for piece in pieces:
                piece.line = piece.line or self._make_line(piece, stand_ins)
            ready += pieces
        return ready

    def _make_line(self, part: Part, stand_ins: StandIns) -> Line | None:
        form = short.forms(part.forms[0][0], self.language)[len(part.forms)] if part.forms else ""
        masks, hidden = self.masks(part.span), frozenset(part.hidden)
        return lines.make_line(self.run, part.span, masks, stand_ins, hidden, form, self.language)

    def needs_alignment(self, part: Part) -> bool:
        """Returns True if something has to be put between the words of the translation."""
        if any((mask.anchor and mask.kind != "soft") or mask.kind == "term" for mask in self.masks(part.span)):
            return True
        text, (start, end) = self.run.text, part.span
        return any(has_letter(text[start:place]) and has_letter(text[place:end]) for place in self._edges_in(part))

    @cached_property
    def _edges(self) -> list[int]:
        """Returns where tags open and close."""
        return sorted({place for tag in self.run.tags for place in (tag.start, tag.end)})

    def _edges_in(self, part: Part) -> list[int]:
        return self._edges[bisect_right(self._edges, part.span[0]) : bisect_left(self._edges, part.span[1])]

    def take(self, part: Part, translation: Translation) -> None:
        """Takes a part's translation: it is final, or the part is asked again by the next step of the ladder."""
        assert part.line is not None
        part.tries += 1
        part.translation = translation
        if translation.error:
            part.target = Target("", lost=self.masks(part.span))
            return
        repeated = False
        if short.is_short(part.line):
            part.forms.append((part.line, translation))
            if len(part.forms) < len(short.forms(part.forms[0][0], self.language)):
                return
            part.line, translation, repeated = short.choose(part.forms)
            part.translation, part.forms = translation, []
        empty = not any(map(str.isalnum, translation.text))
        text = part.line.text if empty else collapse(translation.text) if translation.loops else translation.text
        target = read_translation(part.line, translation, text, self.target)
        steps = (self._divide, self._hide, self._cut_around) if part.tries < MOST_TRIES else ()
        if any(step(part, translation, target) for step in steps):
            return
        part.target, part.truncated, part.untranslated = target, translation.truncated, empty
        part.looped = repeated or (translation.loops and not empty and text != translation.text)
        if part.looped:
            part.translation = replace(translation, text=text, loops=False, loop_broken=True)

    def _divide(self, part: Part, translation: Translation, target: Target) -> bool:
        """Cuts a part of which a sentence was lost into its sentences, and one that is too long for the model."""
        few = part.sentences > 1 and count_sentences(target.text, self.target) < part.sentences
        if not (few or translation.truncated):
            return False
        start, end = part.span
        longest = (end - start) * 2 // 3 if translation.truncated else self.longest
        pieces = cut(self.run, shadow(self.run, start, end), start, longest, self.language)
        if not pieces or pieces[0][:2] == part.span or (end - start < SHORTEST and not few):
            return False
        self.limited += [self.run.text[start:end]] * translation.truncated
        self._replace(part, [(begin, stop) for begin, stop, _ in pieces])
        return True

    def _hide(self, part: Part, translation: Translation, target: Target) -> bool:
        """Hides what the model was given and has lost: numbers, words that it lacks, names that it went round in,
        quotes and brackets."""
        start, end = part.span
        masks = self.masks(part.span)
        pairs = _find_lost(self.run.text, part.span, masks, target.text)
        if not (pairs or translation.missing or translation.loops or target.lost):
            return False
        lost = {mask for mask in target.lost if mask.verbatim} - part.hidden
        spans = [span for word in translation.missing for span in self._find(word, part.span)]
        spans += self._names(part.span) if translation.loops else []
        seen = sorted(self._whole_word(span, part.span) for span in spans)
        seen += [(at, at + 1) for at in pairs]
        fresh: list[Mask] = []
        for begin, stop in sorted(seen):
            hit = [mask for mask in masks if mask.start < stop and begin < mask.end]
            lost.update(mask for mask in hit if mask.verbatim and mask not in part.hidden)
            if not hit and (not fresh or fresh[-1].end <= begin):
                raw = self.run.text[begin:stop]
                anchor = not any(map(str.isalnum, raw))
                fresh.append(Mask(begin, stop, "mark" if anchor else "word", self.run.form.write(raw), anchor))
        if not (lost or fresh):
            return False
        part.hidden |= lost
        self.run.add_masks(fresh)
        span = trim(self.run, shadow(self.run, start, end), start, end, start)
        if span is None:
            self.parts.remove(part)
        else:
            part.span = span
        return True

    def _find(self, word: str, span: Span) -> list[Span]:
        """Returns where a word that the vocabulary lacks stands in a part."""
        if not word.strip() or word == "…":
            return []
        pattern = regex.escape(word, special_only=True)
        matches = regex.finditer(pattern, self.run.text, regex.IGNORECASE, pos=span[0], endpos=span[1])
        return [match.span() for match in matches]

    def _names(self, span: Span) -> list[Span]:
        """Returns the words with a capital inside of a sentence."""
        start, end = span
        if base_language(self.language or "und") in casing.NOUN_CAPITALS or casing.is_shouted(self.run.text[start:end]):
            return []
        words = (match for match in _WORD.finditer(self.run.text, start, end) if match.start() > start)
        return [word.span() for word in words if word.group()[0].isupper() and len(word.group()) > 1]

    def _whole_word(self, span: Span, within: Span) -> Span:
        for match in _WORD.finditer(self.run.text, *within):
            if match.start() < span[1] and span[0] < match.end():
                return min(match.start(), span[0]), max(match.end(), span[1])
        return span

    def _cut_around(self, part: Part, _: Translation, target: Target) -> bool:
        """Cuts a part around the units that were lost though they were hidden."""
        if target.lost:
            self._cut(part, target.lost)
        return bool(target.lost)

    def simplify(self) -> bool:
        """Cuts all sentences at the units in them, to be translated again; returns False if nothing can be cut."""
        if self.simple:
            return False
        self.simple = True
        for part in list(self.parts):
            around = [mask for mask in self.masks(part.span) if mask.kind not in ("number", "count", "soft")]
            inside = self._edges_in(part)
            if around or inside:
                self._cut(part, around, inside)
        return any(part.target is None for part in self.parts)

    def _replace(self, part: Part, spans: Sequence[Span]) -> list[Part]:
        at = bisect_left(self.parts, part.span, key=lambda part: part.span)
        tries = 0 if self.simple else part.tries
        self.parts[at : at + 1] = pieces = [Part(span, 1, tries, set(part.hidden)) for span in spans]
        return pieces

    def _cut(self, part: Part, around: Sequence[Mask], at: Sequence[int] = ()) -> list[Part]:
        """Cuts a part around masks, and at places; what is between them is translated by itself."""
        self.cut.update(around)
        spans, place = [], part.span[0]
        shade = shadow(self.run, *part.span)
        cuts = sorted([(mask.start, mask.end) for mask in around] + [(place, place) for place in at])
        for start, end in [*cuts, (part.span[1], part.span[1])]:
            span = trim(self.run, shade, place, start, part.span[0]) if place < start else None
            if span is not None:
                spans.append(span)
            place = max(place, end)
        return self._replace(part, spans)


def _find_lost(text: str, span: Span, masks: Sequence[Mask], translation: str) -> list[int]:
    """Returns the places of the quotes, or of the brackets, in a part of a run, if its translation has fewer."""
    start, end = span
    places = [
        place
        for place in range(start, end)
        if text[place] in QUOTES + BRACKETS and not any(mask.start <= place < mask.end for mask in masks)
    ]
    counts_expected, counts = _count(text[place] for place in places), _count(translation)
    lost = {kind for kind, times in counts_expected.items() if counts[kind] < times}
    return [place for place in places if _kind(text[place]) in lost]


def _count(signs: Iterable[str]) -> Counter[str]:
    return Counter(_kind(sign) for sign in signs if sign in QUOTES + BRACKETS)


def _kind(sign: str) -> str:
    """Returns what a sign counts as: all quotes are one kind, a bracket is its own."""
    return '"' if sign in QUOTES else sign.translate(_WIDE)
