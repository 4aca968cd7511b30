"""A user's text on its way through a translation model: `prepare`, translate the lines, `rebuild`.

    prepared = prepare(text, options, "en", 400, "de")
    while prepared.lines:
        prepared.take(translate(prepared.lines))
    prepared.rebuild()  # the text and its certificate

A line comes again in another form where the model lost what must not change.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.model.errors import UserError
from dragoman.model.inference.translator import Translation
from dragoman.services.texts.assembly import assemble, place_tags
from dragoman.services.texts.glossary import Glossary
from dragoman.services.texts.invariants import find_problem
from dragoman.services.texts.markdown import read_markdown
from dragoman.services.texts.markup import read_html, read_plain, read_xml
from dragoman.services.texts.options import Format, TextOptions
from dragoman.services.texts.parts import Part, RunState
from dragoman.services.texts.report import lost_units, make_report
from dragoman.services.texts.runs import Mask, Node, Place, Run, Unit, Writer
from dragoman.services.texts.short import NBEST, is_short
from dragoman.services.texts.stand_ins import StandIns
from dragoman.services.texts.targets import Target, read_translation


@dataclass(frozen=True)
class Rebuilt:
    """A translated text, and what became of everything in it that must not change."""

    text: str
    report: dict[str, Any]


@dataclass(frozen=True)
class PartsRequest:
    """Parts of texts to translate, with or without alignment."""

    aligned: bool
    parts: Sequence[tuple[RunState, Part]]
    short: bool = False  # texts of a few words, for which several answers are asked

    def nbest(self, count: int) -> int:
        """Returns how many answers to ask for, of which the client wants so many."""
        return max(count, NBEST) if self.short else count

    @property
    def lines(self) -> list[str]:
        """Returns what the model gets."""
        return [part.line.text for _, part in self.parts if part.line is not None]

    def take(self, translations: Sequence[Translation]) -> None:
        """Takes one translation per line."""
        for (state, part), translation in zip(self.parts, translations, strict=True):
            state.take(part, translation)


@dataclass(eq=False)
class Prepared:
    """A text cut into what the model is given, and what is kept from it."""

    nodes: Sequence[Node]
    states: list[RunState]  # of every run, those inside of masks too
    stand_ins: StandIns = field(default_factory=StandIns)

    def __post_init__(self) -> None:
        self.by_run = {state.run: state for state in self.states}

    @property
    def masked(self) -> bool:
        """Returns True if `stand_ins` are of use; without, sentences are cut around what must not change."""
        return any(state.masked() for state in self.states)

    @property
    def waiting(self) -> list[tuple[RunState, Part]]:
        """Returns the parts that wait for a translation."""
        waiting = [(state, part) for state in self.states for part in state.waiting(self.stand_ins)]
        return waiting if waiting or self.finished else self.waiting

    @property
    def finished(self) -> bool:
        """Returns True once every part is translated and every run is checked."""
        if any(part.target is None for state in self.states for part in state.parts):
            return False
        checked = [self._check(state) for state in reversed(self.states)]  # what is inside of a unit before its run
        return all(checked)

    @property
    def lines(self) -> list[str]:
        """Returns what the model gets now; empty once everything is translated."""
        return PartsRequest(False, self.waiting).lines

    def take(self, translations: Sequence[Translation]) -> None:
        """Takes one translation per line."""
        PartsRequest(False, self.waiting).take(translations)

    def rebuild(self, rank: int = 0) -> Rebuilt:
        """Returns the text, with the rank-th best translation of every sentence where it kept everything."""
        assert self.finished, "lines wait for their translations"
        chosen = self._alternatives(rank) if rank else {}
        written: list[tuple[Run, Place]] = []
        text = self._write(self.nodes, written, chosen)
        return Rebuilt(text, make_report(self.states, written))

    def _check(self, state: RunState) -> bool:
        """Checks what a run becomes; returns False if it is to be translated once more, in a simpler way."""
        if state.written is None:
            inner = (self.by_run[node] for unit in state.run.units for node in unit.inner if isinstance(node, Run))
            if not all(each.written for each in inner):
                return False
            text, written, problem = self._write_run(state, {})
            if problem and state.simplify():
                return False
            if problem:
                state.problem, state.parts = problem, []
                text, written = state.run.raw or state.run.source(0, len(state.run.text), state.run.tags), []
            state.written = text, written
        return True

    def _write(self, nodes: Sequence[Node], written: list[tuple[Run, Place]], chosen: dict[Part, Target]) -> str:
        """Returns nodes with their translations, and adds where the units are."""
        out: list[str] = []
        length = 0
        for node in nodes:
            if isinstance(node, str):
                out.append(node)
            else:
                state = self.by_run[node]
                text, places = state.written or ("", [])
                if chosen and not state.problem:
                    other, moved, problem = self._write_run(state, chosen)
                    text, places = (text, places) if problem else (other, moved)
                out.append(text)
                written += [(run, place.moved(length)) for run, place in places]
            length += len(out[-1])
        return "".join(out)

    def _write_run(self, state: RunState, chosen: dict[Part, Target]) -> tuple[str, list[tuple[Run, Place]], str]:
        """Returns a run's translation, where its units are, and what is wrong with it."""
        run = state.run
        assembly = assemble(state, chosen)
        length = len(assembly.text)
        if not (run.masks or run.tags):
            text = Writer(run.form, assembly.text, ()).write((), 0, length)
            return text, [], find_problem(run, text, text)
        within: dict[Unit, list[tuple[Run, Place]]] = {unit: [] for unit in run.units if unit.inner}
        inner = {unit: self._write(unit.inner, places, chosen) for unit, places in within.items()}
        masks = sorted(assembly.places, key=lambda place: (place.start, place.end))
        writer = Writer(run.form, assembly.text, masks, inner)
        text = writer.write(place_tags(state, assembly), 0, length)
        flat = Writer(run.form, assembly.text, masks, inner).write((), 0, length) if run.tags else text
        written: list[tuple[Run, Place]] = []
        for place in writer.written:
            written.append((run, place))
            written += [(other, each.moved(place.start)) for other, each in within.get(place.unit, ())]
        kept = (part for part in state.parts if part not in chosen and part.translation and not part.translation.error)
        stray = [mask for part in kept if part.target for mask in part.target.lost if not mask.anchor]
        if stray:
            return text, written, f"{stray[0].raw} would stand beside the word for it"
        if lost := lost_units(run, writer.written):
            return text, written, f"{lost[0].raw} would be lost"
        return text, written, find_problem(run, text, flat)

    def translations(self) -> Iterator[tuple[str, Translation]]:
        """Yields the lines that were translated, with their translations."""
        for state in self.states:
            for part in state.parts:
                if part.line is not None and part.translation is not None:
                    yield part.line.text, part.translation

    def attention(self) -> list[dict[str, Any]]:
        """Returns a record per sentence, with what stood for something replaced by it."""
        records = []
        for part in (part for state in self.states for part in state.parts):
            for attention in part.translation.attention if part.translation else ():
                records.append(attention.record())
                for mask, (source, forms), _ in part.line.stood if part.line else ():
                    for side, words in (("source_tokens", (source,)), ("target_tokens", forms)):
                        records[-1][side] = [mask.raw if token in words else token for token in records[-1][side]]
        return records

    def _alternatives(self, rank: int) -> dict[Part, Target]:
        chosen = {}
        for state in self.states:
            for part in state.parts:
                nbest = part.translation.nbest if part.translation else []
                if not nbest or part.line is None or part.translation is None:
                    continue
                text = nbest[min(rank, len(nbest) - 1)].text
                target = read_translation(part.line, part.translation, text, state.target)
                if not target.lost:
                    chosen[part] = target
        return chosen


def prepare(
    text: str,
    options: TextOptions,
    source_language: str,
    longest: int,
    target_language: str = "",
) -> Prepared:
    """Returns the text as lines for a model. `longest`: characters of a sentence before it is cut further.

    Raises UserError: markup that cannot be read, or that is refused.
    """
    nodes = READERS[options.format](text, options)
    states: list[RunState] = []
    runs = [node for node in nodes if isinstance(node, Run)]
    while runs:
        run = runs.pop(0)
        _mask_terms(run, options.glossary, source_language, target_language)
        states.append(RunState(run, options, source_language, target_language, longest))
        runs += [node for unit in run.units for node in unit.inner if isinstance(node, Run)]
    return Prepared(nodes, states)


def spoken_text(text: str, options: TextOptions) -> str:
    """Returns the part of a text that is in a language: without markup and what must not change.

    Markup that cannot be read is returned as it is.
    """
    if options.format == "text":
        return text
    try:
        nodes = READERS[options.format](text, options)
    except UserError:
        return text
    return " ".join(piece for run in nodes if isinstance(run, Run) for piece in run.outside(0, len(run.text)))


def _mask_terms(run: Run, glossary: Glossary | None, language: str, target_language: str) -> None:
    if glossary is None:
        return
    terms = [
        Mask(start, end, "term", run.form.write(target), exact=exact)
        for start, end, target, exact in glossary.find(run.text, language, target_language)
        if not run.touches(start, end)
    ]
    run.add_masks(terms)


READERS: dict[Format, Callable[[str, TextOptions], list[Node]]] = {
    "text": read_plain,
    "html": read_html,
    "xml": read_xml,
    "markdown": read_markdown,
}


def pending(texts: Sequence[Prepared]) -> list[PartsRequest]:
    """Returns what to ask the model next for these texts, in a few groups; nothing once all are translated."""
    groups: dict[tuple[bool, bool], list[tuple[RunState, Part]]] = {}
    for state, part in (waiting for text in texts for waiting in text.waiting):
        key = state.needs_alignment(part), part.line is not None and is_short(part.line)
        groups.setdefault(key, []).append((state, part))
    return [PartsRequest(aligned, parts, short) for (aligned, short), parts in groups.items()]
