"""How the drill measures: at a stub's training, with real processes."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench.drill import drill
from bench.drill import scene as scene_module
from bench.drill.faults import Fault
from bench.drill.scene import Scene
from dragoman.services.jobs.client.client import JobClient
from tests.services.jobs.at_work import at_work
from tests.services.jobs.processes import REPOSITORY, STUB, ProcessExecutor, StubPlanner, make_loop, words


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


class RangePlanner(StubPlanner):
    """Of a range of workers the fewest."""

    def plan(
        self, verb: str, words: Sequence[str], gpus: float = 0.0, early: bool = False, owner: str = ""
    ) -> dict[str, Any]:
        return super().plan(verb, [word.partition("..")[0] for word in words], gpus, early)


DRILL = """
import sys, types
from bench.drill import drill, entry

home = sys.argv[1]
stub = lambda name, steps: [f"run={home}/runs/drill-stub/runs/{name}", f"steps={steps}", "pause=0.02", "code=0"]
drill.CORPUS, drill.TRAINING = stub("shards", 1), stub("drill-stub", 1_000_000)
entry.secrets = types.SimpleNamespace(token_hex=lambda _: "stub")
sys.exit(entry.main(["service", f"paths.root={home}", "jobs.owner=anna"]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_a_drill_that_is_ended_by_a_signal_takes_back_its_jobs(tmp_path: Path, number: signal.Signals) -> None:
    loop = make_loop(f"sqlite:///{tmp_path}/ledger.db", tmp_path)
    loop.intake.planner = RangePlanner(tmp_path)  # type: ignore[assignment]  # as far as it is asked
    with at_work(loop) as port, JobClient(f"http://127.0.0.1:{port}", owner="anna") as service:
        (tmp_path / "service").mkdir(exist_ok=True)
        (tmp_path / "service" / "address.json").write_text(json.dumps({"jobs": f"http://127.0.0.1:{port}"}))
        kept = service.submit("train", words(tmp_path, "kept", 1))["id"]
        while service.job(kept)["state"] != "succeeded":
            time.sleep(0.05)
        command = [sys.executable, "-c", DRILL, str(tmp_path)]
        drilled = subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True)
        try:
            deadline = time.monotonic() + 100
            while not (tmp_path / "runs" / "drill-stub" / "runs" / "drill-stub" / "checkpoints").exists():
                assert drilled.poll() is None and time.monotonic() < deadline
                time.sleep(0.05)
            drilled.send_signal(number)
            _, said = drilled.communicate(timeout=60)
        finally:
            drilled.kill()
        assert drilled.returncode == 128 + number
        assert f"ended by {number.name}; its jobs and files are taken back" in said
        assert [one["id"] for one in service.jobs()["jobs"]] == [kept]
    assert not (tmp_path / "runs" / "drill-stub").exists()
    assert {path.name for path in (tmp_path / "jobs").iterdir()} == {kept}
