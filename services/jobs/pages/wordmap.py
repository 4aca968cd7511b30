"""The page of word vectors: a map of the most frequent words, a word's neighbours, analogies.

Everything is asked of a process of its own, see `service/vectors.py`. The map is a plain SVG; a script moves it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import HTTPException

from dragoman.model.bundles.directory import CONFIG, bundle_hash
from dragoman.model.runs.paths import BUNDLE
from dragoman.model.untrusted import read_object
from dragoman.services.jobs.ledger.access import Person
from dragoman.services.jobs.ledger.ledger import UnknownJobError
from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.pages.site import Site
from dragoman.services.jobs.service.curves import run_of
from dragoman.services.jobs.service.tracking import Version
from dragoman.services.jobs.states import State

LONGEST = 100  # characters of a word
KINDS = {"pca": "PCA", "t-SNE": "t-SNE"}
LETTER, LINE = 9.5, 22.0  # of a label in the whole map, which is 1,000 wide
NEAR = 260.0  # the part of the map around a word that was asked for


@dataclass(frozen=True)
class Asked:
    """A word to be looked up, an analogy A : B = C : ?, the kind of the map."""

    word: str = ""
    analogy: tuple[str, ...] = ()
    kind: str = "pca"

    @classmethod
    def read(cls, asked: Mapping[str, str]) -> "Asked":
        """Reads it from the values of an address; ignores an incomplete analogy."""
        words = tuple(asked.get(key, "").strip()[:LONGEST] for key in "abc")
        kind = asked.get("map", "pca")
        return cls(
            asked.get("word", "").strip()[:LONGEST], words if all(words) else (), kind if kind in KINDS else "pca"
        )


@dataclass(frozen=True)
class Label:
    """A word of the map; `kind` is a class of the style sheet: off where others would cover it."""

    word: str
    x: int
    y: int
    kind: str


def job_bundle(site: Site, person: Person, name: str) -> tuple[Job, Path]:
    """Returns a job and the folder of its word vectors.

    Raises:
        UnknownJobError: there is no such job, or this person may not see it.
        HTTPException: it made no word vectors, or they are not here.
    """
    job = site.operations.job(person, name)
    folder = bundle_of(job)
    if folder is None:
        raise HTTPException(404, f"Job {name} has no word vectors here.")
    return job, folder


def bundle_of(job: Job) -> Path | None:
    """Returns the word vectors in a finished training's folder; None if there are none, or they lead out of it."""
    run = run_of(job)
    if run is None or job.state != State.SUCCEEDED:
        return None
    folder, root = run / BUNDLE, run.resolve()
    try:
        inside = all(path.resolve().is_relative_to(root) for path in [folder, *folder.iterdir()])
        return folder if inside and read_object(folder / CONFIG).get("kind") == "vectors" else None
    except OSError:
        return None


def version_bundle(site: Site, version: Version) -> dict[str, str]:
    """Returns where the bundle of a registered version is: its job's folder if it is there, else the registry."""
    try:
        folder = bundle_of(site.operations.ledger.job(version.tags.get("dragoman.job", "")))
        if folder is not None and bundle_hash(folder) == version.tags.get("bundle_hash"):
            return {"folder": str(folder)}
    except (UnknownJobError, OSError):
        pass  # it was removed, or made elsewhere
    cache = site.home / "cache" / "models"
    place = {"uri": site.tracking.address, "cache": str(cache)}
    return {**place, "reference": f"models:/{version.model}/{version.number}"}


def wordmap(site: Site, asked: Asked, place: Mapping[str, str]) -> dict[str, Any]:
    """Returns what the page shows of the bundle at `place`; refusals are messages beside the forms.

    Raises:
        UserError: the bundle holds no word vectors.
        ServiceError: the process does not answer.
    """
    found = site.vectors.ask({"word": asked.word, "analogy": asked.analogy, "map": asked.kind, **place})
    near, likely = found.get("neighbours", {}), found.get("analogy", {})
    marked = {one["word"] for one in near.get("neighbours", ())} if isinstance(near, dict) else set()
    return {"asked": asked, "kinds": KINDS, **found, **_drawing(found, asked, marked), "near": near, "likely": likely}


def _drawing(found: Mapping[str, Any], asked: Asked, near: set[str]) -> dict[str, Any]:
    """Returns the labels, the dots and the part of the map that is shown first, `x y width height`."""
    words, points = found["words"], found["points"]
    row = found["row"]
    here = points[row] if row is not None and row < len(points) else None
    box = (here[0] - NEAR / 2, here[1] - NEAR / 2, NEAR, NEAR) if here else (-40.0, -40.0, 1080.0, 1080.0)
    order = sorted(range(len(words)), key=lambda place: (place != row, words[place] not in near, place))
    shown = _uncovered(words, points, order, box[2] / 1080.0)
    labels = [
        Label(
            *(word, x, y),
            "here" if place == row else "near" if word in near else "" if place in shown else "off",
        )
        for place, (word, (x, y)) in enumerate(zip(words, points, strict=True))
    ]
    dots = "".join(f"M{x} {y}h0" for x, y in points)
    return {"labels": labels, "dots": dots, "box": " ".join(f"{value:g}" for value in box), "scale": box[2] / 1080.0}


def _uncovered(words: Sequence[str], points: Sequence[Sequence[int]], order: Sequence[int], scale: float) -> set[int]:
    """Returns the places of the words whose labels cover none that come before them in `order`."""
    lines: dict[int, list[tuple[float, float, float]]] = {}  # line -> left, right and height of its labels
    high, shown = LINE * scale, set()
    for place in order:
        (x, y), wide = points[place], LETTER * scale * (len(words[place]) + 1)
        line = int(y // high)
        rivals = [one for near in (line - 1, line, line + 1) for one in lines.get(near, ())]
        if all(abs(other - y) >= high or x >= right or left >= x + wide for left, right, other in rivals):
            lines.setdefault(line, []).append((x, x + wide, y))
            shown.add(place)
    return shown
