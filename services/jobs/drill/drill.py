"""The order of events of a drill: shards, one training, every fault at it, proof that it is as if nothing had been."""

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

from model.errors import ServiceError, UserError
from services.jobs.drill.faults import FAULTS, Fault, ImpossibleError
from services.jobs.drill.processes import alive, ranks
from services.jobs.drill.scene import Scene

CHECKPOINT = 40  # steps
BEYOND = 5  # steps after a checkpoint, at which a fault is made
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
    """What a fault did. Times in seconds."""

    fault: str
    about: str
    lasted: float = 0.0  # until it was undone
    recovered: float | None = None  # from then, or from the fault where nothing undoes it, until the training was
    # further than before; null: not tried
    lost_steps: int = 0  # trained again
    attempts: int = 0  # that it cost
    note: str = ""


@dataclass
class Result:
    """A drill's table and its proofs."""

    rows: list[Row] = field(default_factory=list)
    steps: int = 0
    attempts: int = 0
    verified: bool = False
    problems: list[str] = field(default_factory=list)

    def json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"


def drill(scene: Scene, names: Sequence[str]) -> Result:
    """Make the faults, one after the other, at one training. Nothing of it is left.

    Raises:
        UserError: others' jobs run on the service.
        ServiceError: the service did not recover.
        Interrupted: a signal came; nothing of it is left then, either.
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
    """One fault, made while a checkpoint is some steps behind, and the way back from it."""
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
        if fault.ends:  # they go on for a moment, which is no recovery
            scene.wait(f"the workers are gone after {name}", lambda: not alive(hit))
        scene.wait(f"{name} lasts {fault.seconds:g} s", lambda: time.monotonic() - began >= fault.seconds)
    finally:
        if undo is not None:
            row.lasted = time.monotonic() - began
            began = time.monotonic()
            undo()
    now = scene.progress()
    again = scene.state().get("attempt", attempts) != attempts  # faster than we look: its steps are no lost ones
    at = max(before, now.kept if again else now.step)
    lowest, state = [now.kept if fault.ends else at], dict[str, Any]()  # whoever begins again does so from a checkpoint

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
    """The training is stopped in order; its journal, its checkpoints and its logs tell of no fault."""
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
    command = [sys.executable, "-m", "services.cli", "verify", scene.name, *places]
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
