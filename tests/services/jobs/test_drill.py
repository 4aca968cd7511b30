"""How the drill measures: at a stub's training, with real processes."""

import threading
import time
from pathlib import Path

import psutil
import pytest

from services.jobs.client.client import JobClient
from services.jobs.drill import drill
from services.jobs.drill import scene as scene_module
from services.jobs.drill.faults import Fault
from services.jobs.drill.scene import Scene
from tests.services.jobs.at_work import at_work
from tests.services.jobs.processes import STUB, ProcessExecutor, make_loop, words


def test_a_step_of_an_attempt_that_is_ending_is_no_recovery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = make_loop(f"sqlite:///{tmp_path}/ledger.db", tmp_path)
    executor = loop.executor
    assert isinstance(executor, ProcessExecutor)

    def stubs(job: str) -> list[psutil.Process]:
        runner = psutil.Process(executor.pid(f"{job}-a{loop.ledger.job(job).attempt}"))
        return [one for one in runner.children() if str(STUB) in one.cmdline()]

    def preempt(scene: Scene) -> None:
        """It is asked a moment later, as by the scheduler."""
        threading.Timer(0.5, scene.service.act, (scene.job, "yield")).start()

    def halt(process: psutil.Process) -> None:
        """The signal is on its way when `suspend` returns: a step, and its checkpoint, may come before it arrives."""
        process.suspend()
        while process.status() != psutil.STATUS_STOPPED:
            time.sleep(0.001)

    def kill(scene: Scene) -> None:
        """Between two of its checkpoints: it stands still while that is looked at."""
        (process,) = stubs(scene.job)
        halt(process)
        while scene.journal()[-1]["step"] % 5 == 0:
            process.resume()
            time.sleep(0.005)
            halt(process)
        process.kill()

    monkeypatch.setattr(drill, "ranks", stubs)
    monkeypatch.setattr(drill, "BEYOND", 2)  # the stub keeps every fifth step
    monkeypatch.setattr(scene_module, "LOOK", 0.01)  # the stub is back, and five steps on, in a fraction of a second
    with at_work(loop) as port, JobClient(f"http://127.0.0.1:{port}", owner="anna") as service:
        scene = Scene(service, service, tmp_path, "drill")
        scene.job = service.submit("train", words(tmp_path, "runs/drill/runs/drill", 100_000), retries=3)["id"]
        scene.wait("it begins", lambda: scene.further(0))
        asked = drill._strike(scene, "preemption", Fault("", preempt, ends=True))
        killed = drill._strike(scene, "worker", Fault("", kill, ends=True))
        frozen = drill._strike(scene, "service", Fault("", lambda _: lambda: None, seconds=0.3))
    assert (asked.attempts, asked.lost_steps, killed.attempts, frozen.attempts) == (1, 0, 1, 0)
    assert asked.recovered is not None and asked.recovered > 0.5
    assert killed.lost_steps > 0
    assert frozen.lasted > 0.25
