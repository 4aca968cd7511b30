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
class BoardStep:
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
        self.seen = {step.name: BoardStep(step, "waiting") for step in steps}

    def set(self, step: Step, state: State, note: str = "", log: str = "") -> None:
        """Takes a step's new state; says and draws it."""
        seen_step = self.seen[step.name]
        seen_step.state, seen_step.note, seen_step.log = state, note, log or seen_step.log
        if state == "running":
            seen_step.began = time.time()
        elif seen_step.began is not None and seen_step.seconds is None:
            seen_step.seconds = time.time() - seen_step.began
        spent = f" in {duration(seen_step.seconds)}" if state == "done" and seen_step.seconds is not None else ""
        print(f"{step.name}: {state}{spent}{f' ({note})' if note else ''}", flush=True)
        self.draw()

    def draw(self) -> None:
        """Writes the page: a file that needs nothing else."""
        environment = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
        boxes, arrows, size = _layout([seen_step.step for seen_step in self.seen.values()])
        boxes_shown = [
            {
                "name": name,
                "verb": seen_step.step.verb,
                "state": seen_step.state,
                "words": " ".join(seen_step.step.words),
                "label": seen_step.step.label,
                "note": seen_step.note,
                "tail": _tail(seen_step),
                "kind": seen_step.state.replace(" ", "-"),
                "spent": duration(seen_step.seconds) if seen_step.seconds is not None else "",
                "box": boxes[name],
                "after": ", ".join(seen_step.step.after),
            }
            for name, seen_step in self.seen.items()
        ]
        running = any(seen_step.state in ("running", "waiting") for seen_step in self.seen.values())
        text = environment.get_template("line.html").render(
            name=self.name, steps=boxes_shown, arrows=arrows, size=size, width=WIDTH, height=HEIGHT, running=running
        )
        self.page.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(self.page, text, durable=False)


def _tail(seen_step: BoardStep) -> str:
    if seen_step.state != "failed" or not seen_step.log:
        return ""
    with contextlib.suppress(OSError):
        return "\n".join(Path(seen_step.log).read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL:])
    return ""


def _layout(steps: Sequence[Step]) -> tuple[dict[str, tuple[int, int]], list[dict[str, Any]], tuple[int, int]]:
    """Returns the boxes' upper left corners, the arrows as curves, and the picture's size.

    A step stands one row below the last of those that it needs.
    """
    rows: dict[str, int] = {}
    for step in steps:
        rows[step.name] = max((rows[name_before] + 1 for name_before in step.after), default=0)
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
        for name_before in step.after:
            x, y = boxes[name_before][0] + WIDTH // 2, boxes[name_before][1] + HEIGHT
            to_x, to_y = boxes[step.name][0] + WIDTH // 2, boxes[step.name][1] - 5
            bend = (to_y - y) // 2
            arrows.append({"path": f"M{x},{y} C{x},{y + bend} {to_x},{to_y - bend} {to_x},{to_y}"})
    return boxes, arrows, (total + 4, len(ranks) * (HEIGHT + GAP_Y) - GAP_Y + 4)
