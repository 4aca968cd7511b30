"""The certificate of a translation: what became of everything that must not change. Plain values for JSON."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dragoman.services.texts.parts import Part, RunState
from dragoman.services.texts.runs import Place, Run, Tag, Unit

BREAKS = ("border", "break")
JOINED = ("lost", "cut", "long", "loops", "untranslated", "returned")  # lists


def merge_reports(first: Mapping[str, Any], second: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Returns the certificate of a text that two models translated one after the other; `text`: the answer.

    Places are those in the answer. A word that the first model copied and the answer lacks is lost.
    """
    merged = dict(second)
    sources = {term["text"]: term["source"] for term in first.get("terms", ())}
    merged["terms"] = [
        {**term, "source": sources.get(term["source"], term["source"])} for term in second.get("terms", ())
    ]
    gone = [word["text"] for word in first.get("words", ()) if word["text"] not in text]
    for name in JOINED:
        merged[name] = [*first.get(name, ()), *second.get(name, ()), *(gone if name == "lost" else ())]
    merged["complete"] = bool(first.get("complete", True) and second.get("complete", True) and not gone)
    return {name: value for name, value in merged.items() if value or name in ("complete", "sentences")}


def terms_of(reports: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Returns the terms that a first model wrote, which the second one has to leave as they are."""
    return {term["text"]: term["text"] for report in reports for term in report.get("terms", ())}


def lost_units(run: Run, written: Sequence[Place]) -> list[Unit]:
    """Returns the units of a run that are not written exactly once, and the breaks that are in another order."""
    times = Counter(place.unit for place in written)
    breaks = [mask for mask in run.masks if mask.kind in BREAKS]
    order = (
        sorted((place for place in written if place.unit.kind in BREAKS), key=lambda place: place.start)
        if breaks
        else []
    )
    moved = [mask for mask, place in zip(breaks, order, strict=False) if mask is not place.unit]
    return [unit for unit in run.units if times[unit] != 1] + moved


def make_report(states: Sequence[RunState], written: Sequence[tuple[Run, Place]]) -> dict[str, Any]:
    """Returns what was kept and how, by placeholder, tag and term, and what else happened to the text.

    `how`: copied (as the model left it, or outside of what it was given), stand-in (a word stood for it), cut (the
    sentence was cut there and its parts translated), aligned (put beside its words by attention), guessed (without),
    inflected (a term that the model gave another ending). A term with `"form": "base"` stands as in the glossary where
    the source has another form.
    """
    report: dict[str, list[dict[str, Any]]] = {"placeholders": [], "tags": [], "terms": [], "words": []}
    for run, written_run in written:
        what = written_run.unit
        entry: dict[str, Any] = {"how": written_run.how, "start": written_run.start, "end": written_run.end}
        if isinstance(what, Tag):
            report["tags"].append({"text": what.opening, **entry})
        elif what.kind == "term":
            base = {} if what.exact or written_run.how == "inflected" else {"form": "base"}
            source = run.text[what.start : what.end]
            report["terms"].append({"source": source, "text": what.raw, **entry, **base})
        elif what.kind in ("soft", "border"):
            continue
        elif what.kind in ("word", "mark"):
            report["words"].append({"text": what.raw, **entry})
        else:
            report["placeholders"].append({"text": what.raw, "kind": what.kind, **entry})
    parts = [part for state in states for part in state.parts]

    def lines(flagged: Iterable[Part]) -> list[str]:
        return [part.line.text.removesuffix(part.line.stop) for part in flagged if part.line]

    lists = {
        **report,
        "returned": [
            {"text": state.run.raw or state.run.text, "why": state.problem} for state in states if state.problem
        ],
        "long": [text for state in states for text in state.limited],
        "cut": lines(part for part in parts if part.truncated),
        "untranslated": lines(part for part in parts if part.untranslated),
        "loops": lines(part for part in parts if part.looped),
    }
    whole = not (lists["returned"] or any(part.truncated or part.untranslated for part in parts))
    sentences = sum(state.sentences for state in states if not state.problem)
    return {"complete": whole, "sentences": sentences, **{name: entries for name, entries in lists.items() if entries}}
