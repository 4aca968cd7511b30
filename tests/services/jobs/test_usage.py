"""The use of a job: sampled by its runner, kept thinned beside its log, told by REST and the command line."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dragoman.conf import showing
from dragoman.model.files import exclusive
from dragoman.model.usage.points import PointsFile
from dragoman.model.usage.recorder import VARIABLE, Order
from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.measures import MEASURES
from dragoman.services.jobs.records import attempt_of
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.service.usage import read_machines, read_use
from dragoman.services.jobs.states import State
from tests.services.jobs.processes import RUNNER, bring, words

REPOSITORY = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")
WORK = "import time\nwhile time.process_time() < 0.3: pass\n"


def run(tmp_path: Path, gpus: list[dict[str, Any]] | None, holds: bool = False, **variables: str) -> dict[str, float]:
    """Runs a runner whose command works for 0.3 s of a processor; returns the last sample."""
    (tmp_path / "work.py").write_text(WORK)
    environment = {key: value for key, value in os.environ.items() if key != "CUDA_VISIBLE_DEVICES"}
    environment |= {"PYTHONPATH": f"{REPOSITORY / 'tests' / 'stand_ins'}:{REPOSITORY}", **variables}
    environment[VARIABLE] = str(Order(str(attempt_of(tmp_path, "j1", 1).usage), holds))
    if gpus is not None:
        (tmp_path / "gpus.json").write_text(json.dumps(gpus))
        environment["STAND_IN_GPUS"] = str(tmp_path / "gpus.json")
    command = [sys.executable, "-c", RUNNER, str(tmp_path / "work.py"), str(tmp_path), "j1", "1", "train"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
    (use,) = read_use(tmp_path, "j1", 1).values()
    assert use.total["cpu"] >= 0.3
    return use.last


def test_a_runner_samples_its_processes_and_its_machine(tmp_path: Path) -> None:
    last = run(tmp_path, None)
    assert {"cpu", "memory", "read", "written", "machine_cpu", "machine_free", "machine_sent"} <= last.keys()
    assert last["memory"] > 1e6
    assert not [name for name in last if "gpu" in name]  # there is no driver


def test_the_gpus_of_a_job_are_those_on_which_its_processes_compute(tmp_path: Path) -> None:
    gpus = [
        {"use": 90, "memory": 1e9, "pids": [1]},
        {"use": 40, "memory": 2e9, "own": True},
        {"use": None, "memory": 3e9},
    ]
    last = run(tmp_path, [*gpus, {"gone": True}])
    assert (last["gpu"], last["gpu_memory"]) == (40.0, 2e9)
    assert (last["machine_gpu"], last["machine_gpu_memory"]) == (65.0, 6e9)


@pytest.mark.parametrize(("visible", "expected"), [("1", 40.0), ("GPU-0", 90.0), (None, 65.0), ("", None)])
def test_gpus_that_a_job_holds_are_named_by_its_variables_or_are_all(
    tmp_path: Path, visible: str | None, expected: float | None
) -> None:
    gpus = [{"use": 90, "memory": 1e9}, {"use": 40, "memory": 2e9}]
    variables = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert run(tmp_path, gpus, holds=True, **variables).get("gpu") == expected


def test_one_process_of_a_machine_samples_and_a_later_one_goes_on_counting(tmp_path: Path) -> None:
    run(tmp_path, None)
    (path,) = attempt_of(tmp_path, "j1", 1).folder.glob("a1.usage-*")
    before = path.read_text().splitlines()
    (tmp_path / "jobs/j1/a1.lock").unlink()  # as if the same attempt's workers had been started again
    run(tmp_path, None)
    after = path.read_text().splitlines()
    assert after[: len(before)] == before and len(after) > len(before)
    assert json.loads(after[-1])["cpu"] >= json.loads(before[-1])["cpu"] + 0.3
    (tmp_path / "jobs/j1/a1.lock").unlink()
    with exclusive(path.with_name(f".{path.name}")) as mine:
        assert mine
        run(tmp_path, None)
    assert path.read_text().splitlines() == after


def running(loop: Loop, name: str = "one") -> Job:
    job = loop.ledger.submit("root", "train", words(loop.home, name, 5))
    loop._take()
    (job,) = [one for one in loop.ledger.jobs([State.WAITING], plans=True) if one.id == job.id]
    return bring(loop.ledger, job, State.RUNNING)


def sampled(loop: Loop, job: Job, machine: str, ages: range, cpu: float = 10.0) -> None:
    attempt = attempt_of(loop.home, job.id, job.attempt)
    attempt.folder.mkdir(parents=True, exist_ok=True)
    file = PointsFile(Path(f"{attempt.usage}-{machine}"))
    for number, age in enumerate(ages):
        at = loop.ledger.now() - age
        file.add({"at": at, "cpu": cpu * number, "memory": 2.0**30, "machine_cpu": 50.0, "machine_sent": 5e6 * number})


def test_rest_and_command_line_tell_last_values_and_curves(
    loop: Loop, ask: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    job = running(loop)
    with showing.as_json():
        assert ask("job", job.id) == 0
    assert json.loads(capsys.readouterr().out)["usage"] == {"attempt": 1, "machines": []}
    sampled(loop, job, "node-7", range(60, 0, -5))
    with showing.as_json():
        assert ask("job", job.id) == 0
    (machine,) = json.loads(capsys.readouterr().out)["usage"]["machines"]
    assert machine["machine"] == "node-7"
    assert machine["last"]["cpu"] == pytest.approx(2.0, rel=0.01)  # cores: 10 s of processors in 5 s
    assert machine["total"]["cpu"] == pytest.approx(110.0)
    assert [len(machine["curves"][name]) for name in ("cpu", "memory", "machine_sent")] == [11, 12, 11]
    assert ask("job", job.id) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "node-7" in line]
    assert ["CPU", "node-7", "2", "cores", "2", "cores", "2", "cores"] in rows
    assert ["machine", "sent", "node-7", *("1", "MB/s") * 3] in rows


def test_values_have_no_exponent() -> None:
    values = {"read": 8.375, "written": 0.2e6, "machine_free": 1862 * 2.0**30, "cpu": 99.97}
    assert [MEASURES[name].shown(value) for name, value in values.items()] == [
        "0 MB/s",
        "0.2 MB/s",
        "1,862 GiB",
        "100 cores",
    ]


def test_points_of_a_long_use_are_far_apart_and_leave_no_gap(loop: Loop) -> None:
    job = running(loop)
    sampled(loop, job, "node-1", range(200_000, 100_000, -60))
    sampled(loop, job, "node-1", range(3_000, 0, -60))
    (use,) = read_use(loop.home, job.id, job.attempt).values()
    times = [at for at, _ in use.curves["memory"]]
    assert max(after - at for at, after in pairwise(times[:100])) > 600  # seconds
    assert len(use.spans) == 2 and use.pieces("memory")[0][-1][0] < loop.ledger.now() - 90_000


def test_machines_are_seen_by_the_jobs_of_the_last_hour(loop: Loop) -> None:
    first, second = running(loop), running(loop, "two")
    sampled(loop, first, "node-1", range(4000, 0, -100))
    sampled(loop, second, "node-1", range(60, 0, -5))
    sampled(loop, second, "node-2", range(9000, 5000, -100))  # silent for more than an hour
    found = read_machines(loop.home, loop.ledger)
    assert list(found) == ["node-1"]
    curve = found["node-1"].curves["machine_cpu"]
    assert len(curve) == 35 + 12 and curve == sorted(curve)
    assert "cpu" not in found["node-1"].curves
    loop.ledger.end(first, State.SUCCEEDED, "succeeded", "end", "succeeded", 0)
    assert len(read_machines(loop.home, loop.ledger)["node-1"].curves["machine_cpu"]) == len(curve)
