"""The process that answers pages about word vectors: one line of JSON in, one line of JSON out.

    python -m dragoman.services.jobs.service.vectors_worker

It is a separate process because a million words take seconds to load, and because a bundle is a file of its job: the
service itself neither waits for it nor maps it. Tables stay in their files, see `load_vectors`; torch is not loaded. It
ends when its input does, or after IDLE seconds without a question.
"""

import json
import logging
import os
import resource
import select
import sys
import traceback
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.model.bundles.directory import CONFIG, bundle_hash
from dragoman.model.bundles.vectors import load_vectors
from dragoman.model.errors import ServiceError, UserError
from dragoman.model.word_vectors.embeddings import Embeddings
from dragoman.model.word_vectors.projection import Projection, project
from dragoman.model.word_vectors.search import is_sparse, units
from dragoman.services.models.questions import AnalogyOf, NeighboursOf, Question, answers
from dragoman.services.models.registry import Registry

MAPPED: dict[Projection, int] = {"pca": 1000, "t-SNE": 400}  # most frequent words of a map; t-SNE takes long for more
REDUCED = 50  # dimensions of a sparse table before it is projected
NEAR, ANSWERS = 10, 5  # results of a search for neighbours, and of an analogy
KEPT = 2  # models in memory
IDLE = 900.0  # seconds
MEMORY = 4 << 30  # bytes beside mapped files
NICE = 10  # requests come first


@dataclass
class Loaded:
    """A model in memory, and its maps so far."""

    embeddings: Embeddings
    method: str
    pair: str
    maps: dict[str, list[list[int]]] = field(default_factory=dict)


class Worker:
    """The models that were asked for last."""

    def __init__(self) -> None:
        self._models: OrderedDict[tuple[str, str], Loaded] = OrderedDict()

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Returns the map and the results of the searches, each an answer or `{"error": ...}`.

        `folder` is a bundle's; without it, `reference` names a version of the registry at `uri`, `cache` keeps it.

        Raises:
            UserError: there are no such vectors.
            ServiceError: the registry does not answer.
        """
        loaded = self._load(_folder(question))
        embeddings = loaded.embeddings
        asked: dict[str, Question] = {}
        if question["word"]:
            asked["neighbours"] = NeighboursOf(question["word"], NEAR)
        if question["analogy"]:
            a, b, c = question["analogy"]
            asked["analogy"] = AnalogyOf(a, b, c, ANSWERS)
        found = answers(list(asked.values()), embeddings)
        kind: Projection = "t-SNE" if question["map"] == "t-SNE" else "pca"
        if kind not in loaded.maps:
            loaded.maps[kind] = make_map(embeddings, kind)
        row = embeddings.row(question["word"]) if question["word"] else None
        return {
            **{"total": len(embeddings), "width": embeddings.width, "method": loaded.method, "pair": loaded.pair},
            **{"words": embeddings.words[: len(loaded.maps[kind])], "points": loaded.maps[kind], "row": row},
            **{"count": int(embeddings.counts[row]) if row is not None else 0},
            **{
                name: {"error": str(one)} if isinstance(one, UserError) else one
                for name, one in zip(asked, found, strict=True)
            },
        }

    def _load(self, folder: Path) -> Loaded:
        key = str(folder), bundle_hash(folder)
        if key in self._models:
            self._models.move_to_end(key)
        else:
            bundle = load_vectors(folder, mapped=True)
            self._models[key] = Loaded(bundle.embeddings, str(bundle.config.name), bundle.pair)
            while len(self._models) > KEPT:
                self._models.popitem(last=False)
        return self._models[key]


def _folder(question: dict[str, Any]) -> Path:
    if question.get("folder"):
        folder = Path(question["folder"])
        if not (folder / CONFIG).is_file():
            raise UserError("this job has no finished word vectors yet")
        return folder
    registry = Registry(question["uri"], Path(question["cache"]))
    return registry.fetch(registry.resolve(question["reference"]))


def make_map(embeddings: Embeddings, kind: Projection) -> list[list[int]]:
    """Returns the places of the most frequent words in a square of 1,000: [x, y] of each.

    Directions are projected, as a vector's length tells of frequency more than of meaning.
    """
    rows = np.arange(min(MAPPED[kind], len(embeddings)))
    found = units(embeddings.vectors, embeddings.inverse, rows)
    if is_sparse(found):
        found = _reduce(found)
    points = project(np.asarray(found, np.float64), kind)
    low, high = points.min(axis=0), points.max(axis=0)
    points = (points - (low + high) / 2) / (float((high - low).max()) or 1.0) * 1000 + 500
    places: list[list[int]] = np.rint(points).astype(int).tolist()
    return places


def _reduce(table: Any) -> Any:
    """Returns a sparse table (n, d) as its REDUCED largest components, dense."""
    from scipy.sparse.linalg import svds

    size = min(REDUCED, min(table.shape) - 1)
    if size < 1:
        return table.toarray()
    left, scales, _ = svds(table.astype(np.float64), k=size, v0=np.ones(min(table.shape)))
    return left * scales


def main(argv: Sequence[str] = ()) -> int:
    """Answers until the input ends, or nothing was asked for a while."""
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    lines, told = os.fdopen(os.dup(0), "r", encoding="utf-8"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a library's output is no answer
    logging.getLogger().addHandler(logging.NullHandler())
    worker = Worker()
    while select.select([lines], [], [], IDLE)[0] and (line := lines.readline()):
        try:
            found = worker.answer(json.loads(line))
        except UserError as problem:
            found = {"refused": str(problem)}
        except (ServiceError, MemoryError) as problem:
            found = {"failed": str(problem) or "it needs too much memory"}
        except Exception as problem:  # the next question must be answered in any case
            traceback.print_exc()
            found = {"failed": f"{type(problem).__name__}: {problem}"}
        told.write(json.dumps(found) + "\n")
        told.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
