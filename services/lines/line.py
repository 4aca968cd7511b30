"""The work of `dragoman line`: which steps are missing, in which order, where they run."""

import fcntl
import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.conf import compose
from dragoman.model.errors import UserError
from dragoman.model.storage.places import is_address
from dragoman.services.jobs.client import entries
from dragoman.services.jobs.planning.refusals import VERBS as QUEUED_VERBS
from dragoman.services.jobs.planning.rehearsal import UNSEEN, rehearse
from dragoman.services.lines.board import Board, State
from dragoman.services.lines.recipe import Step, find_recipe, read_line
from dragoman.services.lines.records import Records
from dragoman.services.lines.running import run_here, run_queued
from dragoman.services.lines.settings import LineRoot

logger = logging.getLogger(__name__)


def run_line(root: LineRoot, name: str, changes: Mapping[str, Any]) -> int:
    """Makes what is missing of a line; prints each change of state, and where the page is."""
    path = find_recipe(name)
    if is_address(str(root.paths["root"])):
        raise UserError(f"paths.root={root.paths['root']}: a line works on folders; name one (DRAGOMAN_HOME=FOLDER)")
    home = Path(root.paths["root"]).expanduser().absolute()
    folder = home / "lines" / path.stem
    records = Records(home)
    steps = read_line(path, str(home), changes, records.digest)
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(descriptor, path)
        states = {step.name: records.state(step) for step in steps}
        wanted_steps = _missing(steps, states)
        _rehearse(path, wanted_steps)
        if root.line.plan:
            for step in steps:
                command = f"would run dragoman {step.verb} {' '.join(step.words)}"
                print(f"{step.name}: {command if step in wanted_steps else _at_rest(states[step.name])}")
            return compose.OK
        board = Board(path.stem, steps, folder / "line.html")
        for step in steps:
            if step not in wanted_steps:
                board.set(step, _at_rest(states[step.name]))
        _run(root, wanted_steps, board, folder, descriptor, records)
        board.draw()
    finally:
        os.close(descriptor)
    outputs = {step.name: dict(step.outputs) for step in steps if step.outputs}
    print(json.dumps(outputs, indent=2))
    logger.info("the line as a page: %s", board.page)
    return compose.OK


def _lock(descriptor: int, path: Path) -> None:
    """Raises UserError if another process works on the line, or a step of one that was killed still ends."""
    for _ in range(2):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError:
            time.sleep(10)  # a step ends in order after its line was killed
    raise UserError(f"{path}: another process works on this line")


def _missing(steps: Sequence[Step], states: Mapping[str, str]) -> list[Step]:
    """Returns the steps to run: new ones, and those whose deleted output they need."""
    missing: set[str] = set()
    for step in reversed(steps):
        needed = any(step.name in later.after for later in steps if later.name in missing)
        if states[step.name] == "new" or (states[step.name] == "lost" and needed):
            missing.add(step.name)
    return [step for step in steps if step.name in missing]


def _rehearse(path: Path, steps: Sequence[Step]) -> None:
    """Raises UserError if a step's words are no command, before the first step begins."""
    for step in steps:
        try:
            rehearse(step.verb, [*step.words, UNSEEN])
        except UserError as problem:
            raise UserError(f"{path}: step {step.name}: {problem}") from None


def _at_rest(state: str) -> State:
    return "up to date" if state == "made" else "not needed"


def _run(root: LineRoot, steps: Sequence[Step], board: Board, folder: Path, descriptor: int, records: Records) -> None:
    def made(step: Step, job: str) -> None:
        begun = board.seen[step.name].began
        records.write(step, time.time() - begun if begun else 0.0, **({"job": job} if job else {}))

    if not steps:
        return
    if not _queued(root):
        run_here(steps, board, folder.parents[1], folder / "logs", descriptor, made)
        return
    for step in steps:
        if step.verb not in QUEUED_VERBS:
            raise UserError(f"step {step.name}: the job service has no {step.verb}; line.where=here runs it")
    with entries.connect(root) as client:
        run_queued(client, root.jobs, steps, board, made)


def _queued(root: LineRoot) -> bool:
    """Returns True if the steps become jobs."""
    if root.line.where != "auto":
        return root.line.where == "service"
    return root.jobs.service is not None or bool(entries.running_here(root.paths["root"]))
