"""A run's parts on their way through the model: asked, checked, asked again around what it lost."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import regex

from dragoman.model.inference.translator import Translation
from dragoman.model.languages import base_language
from dragoman.model.text.loops import collapse
from dragoman.model.text.sentences import split
from dragoman.services.texts import casing, lines, short
from dragoman.services.texts.lines import Line
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.protected import has_letter
from dragoman.services.texts.runs import Mask, Run, Span
from dragoman.services.texts.segmentation import find_segments, shadow, trim
from dragoman.services.texts.stand_ins import StandIns
from dragoman.services.texts.targets import Target, read_translation

TURNS = 1  # other stand-ins are tried so often before a sentence is cut
MOST_TRIES = 8  # a part is asked so often at most; the last time without what was lost
SHORTEST = 16  # characters of a sentence that is cut at the model's limit
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}_]+(?:[-'’.][\p{L}\p{M}\p{N}_]+)*")
QUOTES = '"“”„«»「」『』'  # of all languages: a translation may have those of its own
BRACKETS = "()[]（）"
_WIDE = str.maketrans("（）", "()")


@dataclass(eq=False)
class Part:
    """A sentence of a run, or what is left of one that was cut."""

    span: Span
    tries: int = 0
    hidden: set[Mask] = field(default_factory=set)  # masks that the model did not copy as they are
    turn: int = 0  # how many stand-ins of the list it has tried
    named: bool = False  # its names are masked, since the model went round in them
    forms: list[tuple[Line, Translation]] = field(default_factory=list)  # of a short text, as they were answered
    line: Line | None = None
    translation: Translation | None = None
    text: str = ""  # the translation's, without loops
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
    marks_capitals: bool = False  # of the model
    parts: list[Part] = field(default_factory=list)
    cut: set[Mask] = field(default_factory=set)  # masks that a sentence was cut around
    limited: list[str] = field(default_factory=list)  # sentences that were cut at the model's limit
    written: "tuple[str, list[Any]] | None" = None  # the translation once it is checked, and where its units are
    simple: bool = False  # its units are outside of the sentences, since something was wrong with them inside
    problem: str = ""  # why it stays as it was

    def __post_init__(self) -> None:
        segments = find_segments(self.run, self.options, self.language, self.longest)
        self.parts = [Part(span) for span in segments]

    def masks(self, span: Span) -> list[Mask]:
        """Returns the masks inside of a part."""
        return self.run.inside(*span)

    def masked(self) -> bool:
        """Returns True if a part needs stand-ins."""
        waiting = (part for part in self.parts if part.target is None)
        return any(
            not mask.anchor and (not mask.verbatim or mask in part.hidden)
            for part in waiting
            for mask in self.masks(part.span)
        )

    def waiting(self, stand_ins: StandIns) -> list[Part]:
        """Returns the parts to ask the model for, with their lines."""
        ready: list[Part] = []
        for part in list(self.parts):
            if part.target is not None:
                continue
            masks = self.masks(part.span)
            part.line = self._make_line(part, stand_ins)
            if part.line is None:
                around = [mask for mask in masks if not mask.anchor and (not mask.verbatim or mask in part.hidden)]
                ready += self._lined(self._cut(part, around), stand_ins)
            else:
                ready.append(part)
        return ready

    def _make_line(self, part: Part, stand_ins: StandIns) -> Line | None:
        turned = stand_ins.turned(part.turn)
        form = short.forms(part.forms[0][0], self.language)[len(part.forms)] if part.forms else ""
        masks, hidden = self.masks(part.span), frozenset(part.hidden)
        return lines.make_line(self.run, part.span, masks, turned, hidden, form, self.language, self.marks_capitals)

    def _lined(self, parts: Iterable[Part], stand_ins: StandIns) -> Iterator[Part]:
        for part in parts:
            part.line = self._make_line(part, stand_ins)
            if part.line is not None:
                yield part

    def needs_alignment(self, part: Part) -> bool:
        """Returns True if something has to be put between the words of the translation."""
        start, end = part.span
        if any((mask.anchor and mask.kind != "soft") or mask.kind == "term" for mask in self.masks(part.span)):
            return True
        inside = self._edges[bisect_right(self._edges, start) : bisect_left(self._edges, end)]
        text = self.run.text
        return any(has_letter(text[start:place]) and has_letter(text[place:end]) for place in inside)

    @cached_property
    def _edges(self) -> list[int]:
        """Returns where tags open and close."""
        return sorted({place for tag in self.run.tags for place in (tag.start, tag.end)})

    def take(self, part: Part, translation: Translation) -> None:
        """Takes a part's translation: it is final, or the part is cut or asked again."""
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
                part.text = translation.text
                return
            part.line, translation, repeated = short.choose(part.forms)
            part.translation, part.forms = translation, []
        part.text, part.looped = translation.text, repeated
        part.untranslated = not translation.text.strip()
        if part.untranslated:
            part.text = part.line.text
        elif translation.loops:
            part.text = collapse(translation.text)
            part.looped = repeated or part.text != translation.text
        last = part.tries >= MOST_TRIES
        if translation.truncated and not last and self._halve(part):
            return
        part.truncated = translation.truncated
        if translation.missing and not last and self._hide_missing(part, translation.missing):
            return
        if translation.loops and not last and not part.named and self._hide_names(part):
            return
        if not last and self._hide_pairs(part):
            return
        target = read_translation(part.line, translation, part.text, self.target)
        if target.lost and not last:
            if any(mask.verbatim and mask not in part.hidden for mask in target.lost):
                part.hidden.update(mask for mask in target.lost if mask.verbatim)
            elif part.turn < TURNS:
                part.turn += 1
            else:
                self._cut(part, target.lost)
            return
        part.target = target
        if part.looped:
            part.translation = replace(translation, text=part.text, loops=False, loop_broken=True)

    def simplify(self) -> bool:
        """Cuts all sentences at the units in them, to be translated again; returns False if nothing can be cut."""
        if self.simple:
            return False
        self.simple = True
        for part in list(self.parts):
            around = [mask for mask in self.masks(part.span) if mask.kind not in ("number", "count", "soft")]
            inside = self._edges[bisect_right(self._edges, part.span[0]) : bisect_left(self._edges, part.span[1])]
            if around or inside:
                self._cut(part, around, inside)
        return any(part.target is None for part in self.parts)

    def settle(self) -> None:
        """Makes what has no translation yet final: cut around what is lost, the rest untranslated."""
        for part in self.parts:
            if part.target is None and part.line is not None and part.translation is not None:
                part.target = read_translation(part.line, part.translation, part.text, self.target)
        self.parts = [part for part in self.parts if part.target is not None]

    def _replace(self, part: Part, spans: Sequence[Span]) -> list[Part]:
        at = bisect_left(self.parts, part.span, key=lambda part: part.span)
        parts_of_spans = [Part(span, 0 if self.simple else part.tries, set(part.hidden)) for span in spans]
        self.parts[at : at + 1] = parts_of_spans
        return parts_of_spans

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

    def _halve(self, part: Part) -> bool:
        """Cuts a part that is too long for the model in two, at a clause or a blank near its middle."""
        start, end = part.span
        shade = shadow(self.run, start, end)
        first, *more = split(shade.replace("\n", " "), (end - start) * 2 // 3, self.language, sentences=False)
        cut = start + len(first.text + first.after)
        if not more or end - start < SHORTEST or any(mask.start < cut < mask.end for mask in self.masks(part.span)):
            return False
        self.limited.append(self.run.text[start:end])
        spans = [trim(self.run, shade, *span, start) for span in ((start, cut), (cut, end))]
        self._replace(part, [span for span in spans if span is not None])
        return True

    def _hide_missing(self, part: Part, missing: Iterable[str]) -> bool:
        """Masks the words that the vocabulary lacks; returns False if none is found."""
        start, end = part.span
        text = self.run.text
        taken = [(mask.start, mask.end) for mask in self.masks(part.span)]
        spans: set[Span] = set()
        signs = list(part.line.shown) if part.line else []
        for word in missing:
            if not word.strip() or word == "…":
                continue
            pattern = regex.escape(word, special_only=True)
            for match in regex.finditer(pattern, text, regex.IGNORECASE, pos=start, endpos=end):
                hit = next((m for m in signs if m.start < match.end() and match.start() < m.end), None)
                if hit is not None:
                    part.hidden.add(hit)
                    spans.add((-1, -1))
                elif not any(begin < match.end() and match.start() < stop for begin, stop in taken):
                    spans.add(self._whole_word(match.span(), part.span))
        if not spans:
            return False
        self._mask(sorted(spans - {(-1, -1)}))
        span = trim(self.run, shadow(self.run, start, end), start, end, start)
        if span is None:
            self.parts.remove(part)
        else:
            part.span = span
        return True

    def _hide_pairs(self, part: Part) -> bool:
        """Masks the quotes and brackets that the translation lacks; returns False if none is lost."""
        lost = _find_lost(self.run.text, part.span, self.masks(part.span), part.text)
        self._mask((place, place + 1) for place in lost)
        return bool(lost)

    def _hide_names(self, part: Part) -> bool:
        """Masks the words with a capital inside of a sentence that went round; returns False if there is none."""
        part.named = True
        start, end = part.span
        if base_language(self.language or "und") in casing.NOUN_CAPITALS or casing.is_shouted(self.run.text[start:end]):
            return False
        masks = self.masks(part.span)
        names = [
            match.span()
            for match in _WORD.finditer(self.run.text, start, end)
            if match.start() > start
            and match.group()[0].isupper()
            and len(match.group()) > 1
            and not any(mask.start < match.end() and match.start() < mask.end for mask in masks)
        ]
        self._mask(names)
        return bool(names)

    def _mask(self, spans: Iterable[Span]) -> None:
        """Masks words, and marks as what is no word, each once."""
        masks: list[Mask] = []
        for start, end in spans:
            if not masks or masks[-1].end <= start:
                raw = self.run.text[start:end]
                anchor = not any(map(str.isalnum, raw))
                masks.append(Mask(start, end, "mark" if anchor else "word", self.run.form.write(raw), anchor))
        if masks:
            self.run.add_masks(masks)

    def _whole_word(self, span: Span, within: Span) -> Span:
        for match in _WORD.finditer(self.run.text, *within):
            if match.start() < span[1] and span[0] < match.end():
                return min(match.start(), span[0]), max(match.end(), span[1])
        return span


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
