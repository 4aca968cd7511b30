"""The states of a line's steps: a line of text for each change, and the page with the graph."""

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment, FileSystemLoader

from dragoman.model.durations import duration
from dragoman.model.files import atomic_write
from dragoman.services.lines.recipe import Step

State = Literal["up to date", "not needed", "waiting", "running", "done", "failed", "stopped"]
WIDTH, HEIGHT, GAP_X, GAP_Y = 170, 52, 26, 44  # of a step in the graph, and between two, in pixels
TAIL = 15  # lines of a failed step's log


@dataclass
class Seen:
    """A step with its state."""

    step: Step
    state: State
    began: float | None = None
    seconds: float | None = None
    note: str = ""  # a job's id, or the end of the log
    log: str = ""


class Board:
    """The states, said on standard output and drawn in `page`."""

    def __init__(self, name: str, steps: Sequence[Step], page: Path) -> None:
        self.name, self.page = name, page
        self.seen = {step.name: Seen(step, "waiting") for step in steps}

    def set(self, step: Step, state: State, note: str = "", log: str = "") -> None:
        """Takes a step's new state; says and draws it."""
        one = self.seen[step.name]
        one.state, one.note, one.log = state, note, log or one.log
        if state == "running":
            one.began = time.time()
        elif one.began is not None and one.seconds is None:
            one.seconds = time.time() - one.began
        spent = f" in {duration(one.seconds)}" if state == "done" and one.seconds is not None else ""
        print(f"{step.name}: {state}{spent}{f' ({note})' if note else ''}", flush=True)
        self.draw()

    def draw(self) -> None:
        """Writes the page: a file that needs nothing else."""
        environment = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
        boxes, arrows, size = _layout([one.step for one in self.seen.values()])
        shown = [
            {
                "name": name,
                "verb": one.step.verb,
                "state": one.state,
                "words": " ".join(one.step.words),
                "label": one.step.label,
                "note": one.note,
                "tail": _tail(one),
                "kind": one.state.replace(" ", "-"),
                "spent": duration(one.seconds) if one.seconds is not None else "",
                "box": boxes[name],
                "after": ", ".join(one.step.after),
            }
            for name, one in self.seen.items()
        ]
        running = any(one.state in ("running", "waiting") for one in self.seen.values())
        text = environment.get_template("line.html").render(
            name=self.name, steps=shown, arrows=arrows, size=size, width=WIDTH, height=HEIGHT, running=running
        )
        self.page.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(self.page, text, durable=False)


def _tail(one: Seen) -> str:
    if one.state != "failed" or not one.log:
        return ""
    with contextlib.suppress(OSError):
        return "\n".join(Path(one.log).read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL:])
    return ""


def _layout(steps: Sequence[Step]) -> tuple[dict[str, tuple[int, int]], list[dict[str, Any]], tuple[int, int]]:
    """Returns the boxes' upper left corners, the arrows as curves, and the picture's size.

    A step stands one row below the last of those that it needs.
    """
    rows: dict[str, int] = {}
    for step in steps:
        rows[step.name] = max((rows[one] + 1 for one in step.after), default=0)
    ranks = [[name for name, row in rows.items() if row == rank] for rank in range(max(rows.values()) + 1)]
    widest = max(map(len, ranks))
    total = widest * (WIDTH + GAP_X) - GAP_X
    boxes = {}
    for row, names in enumerate(ranks):
        left = (total - (len(names) * (WIDTH + GAP_X) - GAP_X)) // 2
        for column, name in enumerate(names):
            boxes[name] = (left + column * (WIDTH + GAP_X) + 2, row * (HEIGHT + GAP_Y) + 2)
    arrows = []
    for step in steps:
        for one in step.after:
            x, y = boxes[one][0] + WIDTH // 2, boxes[one][1] + HEIGHT
            to_x, to_y = boxes[step.name][0] + WIDTH // 2, boxes[step.name][1] - 5
            bend = (to_y - y) // 2
            arrows.append({"path": f"M{x},{y} C{x},{y + bend} {to_x},{to_y - bend} {to_x},{to_y}"})
    return boxes, arrows, (total + 4, len(ranks) * (HEIGHT + GAP_Y) - GAP_Y + 4)
