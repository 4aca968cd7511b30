"""Faults of what stands round the service, with real processes: its database, its network, a job's disk, MLflow."""

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman.model.errors import ServiceError
from dragoman.model.ports import free_ports
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.executor import Start
from dragoman.services.jobs.records import attempt_of
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.service.outbox import Outbox, pending
from dragoman.services.jobs.states import ENDED, State
from dragoman.services.jobs.up import subprocesses
from dragoman.services.jobs.up.children import Children
from tests.s3_server import proxy_before
from tests.services.jobs.at_work import at_work
from tests.services.jobs.conftest import Postgres, new_database
from tests.services.jobs.processes import ProcessExecutor, make_loop, words

PATIENCE = 120.0


def wait(loop: Loop, jobs: list[str]) -> None:
    """Until all have ended; the database may be away."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(Exception):
            if all(loop.ledger.job(name).state in ENDED for name in jobs):
                return
        assert time.monotonic() < deadline, [(one.id, one.state, one.reason) for one in loop.ledger.jobs()]
        time.sleep(0.05)


def starts(home: Path, name: str) -> int:
    return len((home / name / "starts").read_text().splitlines())


def submit(port: int, home: Path, names: list[str], **more: Any) -> list[str]:
    """Each by a client of its own, all at once."""

    def one(name: str) -> str:
        with JobClient(f"http://127.0.0.1:{port}", owner=name[:1], timeout=5) as service:
            return service.submit("train", words(home, name, 10), **more)["id"]

    with ThreadPoolExecutor(len(names)) as pool:
        return list(pool.map(one, names))


def test_a_database_that_is_started_again_under_load_loses_nothing_and_nothing_runs_twice(
    postgres: Postgres, tmp_path: Path
) -> None:
    loop = make_loop(new_database(postgres), tmp_path, cpus=4)
    names = [f"{owner}{number}" for owner in "ab" for number in range(4)]
    restarts = threading.Timer(0.3, postgres.restart)
    with at_work(loop) as port:
        restarts.start()
        jobs = submit(port, tmp_path, names)
        restarts.join()
        postgres.restart()  # and once more, while they run
        wait(loop, jobs)
        assert len(set(jobs)) == len(names) == len(loop.ledger.jobs())
        assert {loop.ledger.job(job).state for job in jobs} == {State.SUCCEEDED}
        assert [starts(tmp_path, name) for name in names] == [1] * len(names)
        assert [len(loop.ledger.attempts(job)) for job in jobs] == [1] * len(names)


def test_a_network_that_answers_late_or_loses_answers_makes_no_second_job_and_starts_none_twice(
    loop: Loop,
    tmp_path: Path,
) -> None:
    executor = loop.executor
    assert isinstance(executor, ProcessExecutor)
    handed: dict[str, int] = {}

    def late(start: Start) -> None:
        """The cluster does what it is asked for; half of its answers come late, or never."""
        handed[start.id] = handed.get(start.id, 0) + 1
        time.sleep(0.3)
        if handed[start.id] == 1:
            raise ServiceError("the answer was lost")

    executor.after_submit = late
    with at_work(loop) as port, proxy_before(port) as proxy:
        proxy.fault("lost", "POST", times=3)
        proxy.fault("reset", "POST", times=2)
        proxy.fault("delay", "POST", times=20, seconds=0.5)
        names = [f"a{number}" for number in range(4)]
        jobs = submit(proxy.port, tmp_path, names)
        wait(loop, jobs)
        assert len(set(jobs)) == len(loop.ledger.jobs()) == len(names)
        assert len([one for one in proxy.requests if one == "POST /v1/jobs"]) >= len(names) + 3
        assert {loop.ledger.job(job).state for job in jobs} == {State.SUCCEEDED}
        assert [starts(tmp_path, name) for name in names] == [1] * len(names)


def test_a_disk_that_is_full_at_a_checkpoint_costs_the_steps_since_the_last_one(loop: Loop, tmp_path: Path) -> None:
    with at_work(loop) as port:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "full-at").write_text("10")  # what the stub's checkpoint of that step meets, once
        with JobClient(f"http://127.0.0.1:{port}", owner="anna") as service:
            job = service.submit("train", words(tmp_path, "run", 12), retries=2)["id"]
            wait(loop, [job])
        first, second = loop.ledger.attempts(job)
        assert (first.outcome, first.cause, second.outcome) == ("failed", "exit 1", "succeeded")
        assert first.kept_step == 5
        journal = (tmp_path / "run" / "steps.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in journal] == list(range(1, 13))
        log = attempt_of(tmp_path, job, 1).log.read_text()
        assert "File too large" in log
        assert not list((tmp_path / "run").glob("checkpoints/.part*"))


@pytest.mark.long
def test_mlflow_that_is_away_for_a_whole_job_has_all_of_it_when_it_is_back(loop: Loop, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    where = f"http://127.0.0.1:{port}"
    (tmp_path / "server").write_text(where)
    loop.executor = loop.attempts.executor = ProcessExecutor(tmp_path, stub=Path(__file__).with_name("tracked_job.py"))
    outbox = Outbox(loop.ledger, where)
    with at_work(loop) as service, contextlib.ExitStack() as stack:
        (job,) = submit(service, tmp_path, ["run"])
        wait(loop, [job])
        assert loop.ledger.job(job).state == State.SUCCEEDED
        assert pending(tmp_path / "run") > 0
        assert outbox.look() == 1  # nobody answers: it is kept in mind
        stack.enter_context(mlflow_server(tmp_path, port))
        assert outbox.look() == 0
        found = httpx.post(f"{where}/api/2.0/mlflow/runs/search", json={"experiment_ids": ["1"]}).json()["runs"]
        query = {"run_id": found[0]["info"]["run_id"], "metric_key": "train/loss"}
        sent = httpx.get(f"{where}/api/2.0/mlflow/metrics/get-history", params=query).json()["metrics"]
    assert [int(one["step"]) for one in sent] == list(range(1, 11))
    assert (len(found), found[0]["info"]["status"]) == (1, "FINISHED")
    assert pending(tmp_path / "run") == 0


@contextlib.contextmanager
def mlflow_server(folder: Path, port: int) -> Iterator[None]:
    """A real one, until the end of the block."""
    places = subprocesses.Layout(folder, port, 0, 0, folder)
    child = subprocesses.tracking(places, folder / "mlflow", dict(os.environ))
    with contextlib.ExitStack() as stack:
        children = Children(folder / "children.json")
        stack.callback(children.stop)
        children.start(child)
        deadline = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"http://127.0.0.1:{port}/health", timeout=1).status_code == 200:
                    break
            assert time.monotonic() < deadline, child.log.read_text()
            time.sleep(0.1)
        yield
