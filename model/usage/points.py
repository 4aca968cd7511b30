"""The file of an attempt's use on one machine: a line of JSON a sample, thinned as it grows.

| | of the job's processes | `machine_...` | two samples become |
| cpu               | seconds of processors since the start | percent            | the last; the mean
| read, written     | bytes since the start                 | since its start    | the last
| memory            | bytes                                 | bytes              | the greater
| gpu               | percent, mean of its GPUs             | mean of all        | the mean
| gpu_memory        | bytes                                 | bytes              | the greater
| free              |                                       | bytes of the disk  | the last
| sent, received    |                                       | since its start    | the last
| idle, idle_since  | GPUs that idle now, and since when    |                    | the last
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from dragoman.model.files import atomic_write
from dragoman.model.runs.lines import JournalReader
from dragoman.model.untrusted import finite

EVERY = 5.0  # seconds between two samples
MOST = 300  # points of a file
MEANS = {"gpu", "machine_gpu", "machine_cpu"}
GREATEST = {"memory", "gpu_memory", "machine_memory", "machine_gpu_memory"}
Point = Mapping[str, float]


def thin(points: Sequence[Point], most: int = MOST // 2) -> list[Point]:
    """Returns at most `most` points: those of the same 10 s become one; if too many are left, of the same 20 s, ..."""
    width, thinned = EVERY, list(points)
    while len(thinned) > most:
        width *= 2
        first = points[0]["at"]
        slots: dict[int, list[Point]] = {}
        for point in thinned:
            slots.setdefault(int((point["at"] - first) // width), []).append(point)
        before, merged = first - EVERY, list[Point]()
        for slot in slots.values():
            merged.append(_merged(slot, before))
            before = slot[-1]["at"]
        thinned = merged
    return thinned


def _merged(points: Sequence[Point], before: float) -> Point:
    """Returns the point in their place; each stands for the time since the one before, the first since `before`."""
    merged = dict(points[-1])
    spans = [after - at for at, after in pairwise([before, *(point["at"] for point in points)])]
    for name in merged:
        values = [(point[name], span) for point, span in zip(points, spans, strict=True) if name in point]
        if name in MEANS:
            merged[name] = sum(value * span for value, span in values) / sum(span for _, span in values)
        elif name in GREATEST:
            merged[name] = max(value for value, _ in values)
    return merged


class PointsFile:
    """Writes the file at `path`; points from before stay."""

    def __init__(self, path: Path, points: Sequence[Point] = ()) -> None:
        self.path, self.points = path, list(points)

    def add(self, point: Point) -> None:
        """Adds a point; with MOST points the file is written anew, thinned."""
        self.points.append(point)
        if len(self.points) >= MOST:
            self.points = thin(self.points)
            atomic_write(self.path, "".join(map(_line, self.points)), durable=False)
        else:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(_line(point))


def read_points(path: Path) -> list[Point]:
    """Returns the points of the file; at most MOST, whoever has written it."""
    points: list[Point] = []
    for line in JournalReader(path).lines():
        point = {name: number for name, value in line.items() if (number := finite(value)) is not None}
        if point.get("at", 0.0) > (points[-1]["at"] if points else 0.0):
            points.append(point)
    return points if len(points) <= MOST else thin(points)


def _line(point: Point) -> str:
    return json.dumps({name: round(value, 3) for name, value in point.items()}) + "\n"
