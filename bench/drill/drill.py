"""The drill: shards, one training, every fault, and the proof that the result equals an undisturbed run."""

import contextlib
import json
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.drill.faults import FAULTS, Fault, ImpossibleError
from bench.drill.processes import alive, ranks
from bench.drill.scene import Scene
from dragoman.model.errors import ServiceError, UserError

CHECKPOINT = 40  # steps
BEYOND = 5  # steps between a checkpoint and the fault
CORPUS = ["corpus=phrasebook", "corpus.pairs=4000", "pair=en-de", "tokenizer.vocabulary=1000"]
TRAINING = [
    *CORPUS,
    *("model=rnnsearch_additive", "model.width=64", "model.embedding=64"),
    *("model.encoder_width=64", "model.attention_width=64"),
    *("loader.batch_tokens=1024", "loader.lanes=2", "train.max_steps=1000000"),
    *(f"train.checkpoint_every={CHECKPOINT}", "train.evaluate_every=1000000", "train.precision=fp32"),
    *("tracking.offline=true", "tracking.system_metrics=false", "cluster.device=cpu", "cluster.max_failures=20"),
]
logger = logging.getLogger(__name__)


@dataclass
class Row:
    """The effect of a fault. Times are in seconds."""

    fault: str
    about: str
    lasted: float = 0.0  # until it was undone
    recovered: float | None = None  # from then (or from a fault that nothing undoes) until the training was further
    # than before; null: not tried
    lost_steps: int = 0  # steps that were trained again
    attempts: int = 0  # additional attempts
    note: str = ""


@dataclass
class Result:
    """The table of a drill and its checks."""

    rows: list[Row] = field(default_factory=list)
    steps: int = 0
    attempts: int = 0
    verified: bool = False
    problems: list[str] = field(default_factory=list)

    def json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"


def drill(scene: Scene, names: Sequence[str]) -> Result:
    """Causes the faults, one after the other, in one training, and removes all its traces.

    Raises:
        UserError: other jobs run on the service.
        ServiceError: the service did not recover.
        Interrupted: a signal came; the traces are removed then too.
    """
    counts = scene.service.status()["counts"]
    busy = sum(counts.get(state, 0) for state in ("submitted", "planned", "waiting", "starting", "running", "yielding"))
    if busy:
        raise UserError(f"{busy} jobs run or wait on this service: a drill would hit them. Come again when it is idle")
    jobs, result = list[str](), Result()
    try:
        paths = [f"paths.shards={scene.folder}/shards", f"paths.runs={scene.folder}/runs"]
        logger.info("shards first")
        jobs.append(scene.service.submit("shard", [*CORPUS, *paths, "cluster.workers=1"])["id"])
        scene.finish(jobs[0])
        cpus = max(1, int(max(node["cpus"] for node in scene.service.status()["nodes"]) / 2))
        size = ["cluster.workers=1..2", f"cluster.cpus_per_worker={cpus}", f"name={scene.name}"]
        scene.job = scene.service.submit("train", [*TRAINING, *paths, *size], priority="low", retries=20)["id"]
        jobs.append(scene.job)
        scene.wait("the training begins", lambda: scene.further(0))
        for name in names:
            result.rows.append(_strike(scene, name, FAULTS[name]))
        _prove(scene, result)
    finally:
        scene.clean([*jobs, *scene.others])
    return result


def _strike(scene: Scene, name: str, fault: Fault) -> Row:
    """Causes one fault some steps after a checkpoint, and measures the recovery."""
    row = Row(name, fault.about)
    try:
        fault.prepare(scene)
        start = scene.progress().kept
        scene.wait("a checkpoint", lambda: scene.progress().kept > start and scene.further(0))
        scene.wait("a step beyond it", lambda: scene.progress().step >= scene.progress().kept + BEYOND)
        scene.wait("the service answers", lambda: scene.state().get("state") == "running")
        attempts, before, hit = scene.state()["attempt"], scene.progress().step, ranks(scene.job)
        began = time.monotonic()
        undo = fault.make(scene)
        if fault.delayed:
            began, before = time.monotonic(), scene.progress().step
    except ImpossibleError as problem:
        row.note = f"not tried: {problem}"
        logger.info("%s: %s", name, row.note)
        return row
    try:
        if fault.ends:  # the workers go on for a moment, which is no recovery
            scene.wait(f"the workers are gone after {name}", lambda: not alive(hit))
        scene.wait(f"{name} lasts {fault.seconds:g} s", lambda: time.monotonic() - began >= fault.seconds)
    finally:
        if undo is not None:
            row.lasted = time.monotonic() - began
            began = time.monotonic()
            undo()
    now = scene.progress()
    again = scene.state().get("attempt", attempts) != attempts  # faster than our polling: no steps were lost
    at = max(before, now.kept if again else now.step)
    lowest, state = [now.kept if fault.ends else at], dict[str, Any]()  # a new start begins at a checkpoint

    def back() -> bool:
        lowest.append(scene.progress().step)
        state.update(scene.state())
        return scene.further(at) and state.get("state") == "running"

    scene.wait(f"the training goes on after {name}", back)
    row.recovered = time.monotonic() - began
    row.lost_steps = max(0, at - min(lowest))
    row.attempts = state["attempt"] - attempts
    logger.info("%s: further than before after %.1f s, %d steps again", name, row.recovered, row.lost_steps)
    return row


def _prove(scene: Scene, result: Result) -> None:
    """Stops the training gracefully; its journal, checkpoints and logs must show no fault."""
    scene.service.act(scene.job, "stop")
    scene.wait("the training stops", lambda: scene.service.job(scene.job)["state"] == "stopped")
    steps = [line["step"] for line in scene.journal() if "loss" in line]
    result.steps, result.attempts = len(steps), scene.service.job(scene.job)["attempt"]
    if steps != list(range(1, len(steps) + 1)):
        result.problems.append("a step is missing in the journal, or stands there twice")
    for number in range(1, result.attempts + 1):
        log = scene.home / "jobs" / scene.job / f"a{number}.log"
        if not log.exists() or not log.stat().st_size:
            result.problems.append(f"the log of attempt {number} is lost")
    places = [f"paths.runs={scene.folder}/runs", f"paths.shards={scene.folder}/shards"]
    command = [sys.executable, "-m", "dragoman.services.cli", "verify", scene.name, *places]
    with tempfile.TemporaryFile("w+") as said:
        found = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)
        try:
            scene.wait("dragoman verify ends", lambda: found.poll() is not None, 600)
        finally:
            found.kill()
            found.wait()
        result.verified = found.returncode == 0
        said.seek(0)
        lines = said.read().strip().splitlines() or [""]
    if not result.verified:
        result.problems.append(f"dragoman verify: {lines[-1]}")
    with contextlib.suppress(ServiceError):
        for job in scene.others:
            scene.finish(job)
