"""The certificate of a translation: what became of everything that must not change. Plain values for JSON."""

from collections.abc import Sequence
from typing import Any

from services.texts.assembly import Written
from services.texts.parts import RunState
from services.texts.runs import Mask, Run, Tag


def make_report(states: Sequence[RunState], written: Sequence[tuple[Run, Written]]) -> dict[str, Any]:
    """Returns what was kept and how, by placeholder, tag and term, and what else happened to the text.

    `how`: copied (as the model left it, or outside of what it was given), stand-in (a word stood for it), cut (the
    sentence was cut there and its parts translated), aligned (put beside its words by attention), guessed (without),
    inflected (a term that the model gave another ending).
    """
    found: dict[str, list[dict[str, Any]]] = {"placeholders": [], "tags": [], "terms": [], "words": []}
    times: dict[Mask | Tag, int] = {}
    for run, one in written:
        times[one.what] = times.get(one.what, 0) + 1
        what = one.what
        entry: dict[str, Any] = {"how": one.how, "start": one.start, "end": one.end}
        if isinstance(what, Tag):
            found["tags"].append({"text": what.opening, **entry})
        elif what.kind == "term":
            found["terms"].append({"source": run.text[what.start : what.end], "text": what.raw, **entry})
        elif what.kind in ("soft", "border"):
            continue
        elif what.kind in ("word", "mark"):
            found["words"].append({"text": what.raw, **entry})
        else:
            found["placeholders"].append({"text": what.raw, "kind": what.kind, **entry})
    parts = [part for state in states for part in state.parts]
    lost = [what for state in states for what in state.run.kept if times.get(what) != 1]
    limited = [text for state in states for text in state.limited]
    report: dict[str, Any] = {
        "complete": not lost and not any(part.truncated for part in parts),
        "sentences": len(parts),
        **{name: entries for name, entries in found.items() if entries},
    }
    if lost:
        report["lost"] = [what.raw if isinstance(what, Mask) else what.opening for what in lost]
    if limited:
        report["long"] = limited
    for name, flagged in (
        ("cut", [part for part in parts if part.truncated]),
        ("untranslated", [part for part in parts if part.untranslated]),
        ("loops", [part for part in parts if part.looped]),
    ):
        if flagged:
            report[name] = [part.line.text for part in flagged if part.line]
    return report
