"""Jobs as real processes without Ray: an executor for tests, the stub in the place of a verb, and its planner."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from dragoman.model.errors import ServiceError, UserError
from dragoman.services.jobs.executor import Observation, Start
from dragoman.services.jobs.ledger.access import Access
from dragoman.services.jobs.ledger.database import Database, Job
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.records import Request, attempt_of
from dragoman.services.jobs.scheduling.entries import Capacity
from dragoman.services.jobs.scheduling.room import Node
from dragoman.services.jobs.service.intake import Intake
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.settings import ServiceConfig
from dragoman.services.jobs.states import State

STUB = Path(__file__).with_name("stub_job.py")
PROCESSES: list["subprocess.Popen[bytes]"] = []  # to be waited for when a test is over
REPOSITORY = Path(__file__).resolve().parents[3]
RUNNER = (
    "import sys, dragoman.services.jobs.runner as runner\n"
    "real = runner._run\n"
    "runner._run = lambda a, command, *more: real(a, [sys.executable, sys.argv[1], *command[4:]], *more)\n"
    "sys.exit(runner.main(sys.argv[2:]))\n"
)


def end_trees(pids: Sequence[int]) -> None:
    """SIGTERM to these processes and all below them, SIGKILL to those that stay."""
    family: list[psutil.Process] = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            one = psutil.Process(pid)
            family += [one, *one.children(recursive=True)]
    for one in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.terminate()
    _, left = psutil.wait_procs(family, timeout=20)
    for one in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    psutil.wait_procs(left, timeout=5)


class ProcessExecutor:
    """Runs `runner` with the stub. What it has started it knows from a file, as Ray would."""

    def __init__(self, home: Path, cpus: float = 2, stub: Path = STUB) -> None:
        self.home, self.cpus, self.stub = home, cpus, stub
        self.away = False
        self.started = home / "started"
        self.before_submit: Callable[[Start], None] = lambda _: None
        self.after_submit: Callable[[Start], None] = lambda _: None

    def submit(self, start: Start) -> None:
        self._reach()
        self.before_submit(start)
        known = self._known()
        if start.id not in known:
            command = [sys.executable, "-c", RUNNER, str(self.stub), str(self.home), start.job, str(start.number)]
            words = [word.partition("=")[2] for word in start.words if not word.startswith(("cluster.", "paths."))]
            process = subprocess.Popen(
                [*command, start.verb, *words],
                **{"cwd": REPOSITORY, "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL},
                **{"stderr": subprocess.DEVNULL, "start_new_session": True},
            )
            PROCESSES.append(process)
            with self.started.open("a") as file:
                file.write(f"{start.id} {process.pid}\n")
        self.after_submit(start)

    def observe(self, starts: Sequence[Start]) -> dict[str, Observation]:
        self._reach()
        known = self._known()
        return {one.id: Observation("running" if one.id in known else "absent") for one in starts}

    def stop(self, start: Start, request: Request) -> None:
        attempt_of(self.home, start.job, start.number).ask(request)

    def kill(self, start: Start) -> None:
        pid = self._known().get(start.id)
        if pid is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                for one in [*psutil.Process(pid).children(recursive=True), psutil.Process(pid)]:
                    one.kill()

    def capacity(self) -> Capacity:
        self._reach()
        return Capacity((Node("here", self.cpus),))

    def incarnation(self) -> str:
        self._reach()
        return "first"

    def logs(self, start: Start, offset: int, limit: int) -> bytes:
        return attempt_of(self.home, start.job, start.number).read_log(offset, limit)

    def pid(self, name: str) -> int:
        return self._known()[name]

    def _known(self) -> dict[str, int]:
        if not self.started.exists():
            return {}
        return {name: int(pid) for name, pid in map(str.split, self.started.read_text().splitlines())}

    def _reach(self) -> None:
        if self.away:
            raise ServiceError("the cluster is away")


class StubPlanner:
    """Words are run=PATH steps=N pause=SECONDS [code=N] [cluster.workers=N]."""

    def __init__(self, home: Path) -> None:
        self.roots: list[str] = [str(home)]
        self.secrets: list[str] = []

    def plan(
        self, verb: str, words: Sequence[str], gpus: float = 0.0, early: bool = False, *_: object
    ) -> dict[str, Any]:
        values = {key: value for key, _, value in (word.partition("=") for word in words)}
        if not values.get("steps", "").isdecimal() or "run" not in values:
            raise UserError("the stub needs run= and steps=")
        workers = int(values.get("cluster.workers", "1"))
        return {
            **{"verb": verb, "words": list(words), "elastic": False, "spreads": False, "choices": [workers]},
            **{"claims": f"run {values['run']}", "model": "", "run_dir": values["run"]},
            **{"cpus": 1.0, "gpus": 0.0, "changed": {}, "shape": "stub", "fingerprint": "f" * 64},
            **{"steps": int(values["steps"]), "tokens": 10 * int(values["steps"]), "flops": 1.0, "parameters": 1},
            "memory": 1,
            "places": [{"key": "name", "value": Path(values["run"]).name, "path": values["run"], "use": "write"}]
            if "/runs/" in values["run"]
            else [],
        }

    def close(self) -> None:
        pass


def make_loop(url: str, home: Path, cpus: float = 2, **settings: Any) -> Loop:
    ledger = Ledger(Database(url))
    config = ServiceConfig(**{"tick": 0.05, "preempt_after": 0.0, **settings})
    executor = ProcessExecutor(home, cpus)
    intake = Intake(ledger, StubPlanner(home), "here")  # type: ignore[arg-type]  # as far as it is asked
    loop = Loop(ledger, Access(ledger), executor, intake, config, home)
    loop.attempts.settling = 0.1
    return loop


def bring(ledger: Ledger, job: Job, state: State, workers: int = 1, **planned: Any) -> Job:
    """Takes a job on through its states until `state`: planned, with these columns, waiting, starting or running."""
    steps = [State.SUBMITTED, State.PLANNED, State.WAITING, State.STARTING, State.RUNNING]
    for step in steps[steps.index(State(job.state)) + 1 : steps.index(state) + 1]:
        if step == State.RUNNING:
            job = ledger.mark_started(job)
        elif step == State.STARTING:
            with ledger.write() as session:
                job = ledger.begin(session, job, workers, "scheduler", "fits")
        else:
            job, planned = ledger.change(job, step, "planner", "", **planned), {}
    return job


def words(home: Path, name: str, steps: int, pause: float = 0.02, code: int = 0, workers: int = 1) -> list[str]:
    return [f"run={home}/{name}", f"steps={steps}", f"pause={pause}", f"code={code}", f"cluster.workers={workers}"]


def main() -> None:
    """A service that dies by itself: python processes.py URL HOME after-commit|before-submit|after-submit."""
    from sqlalchemy import event

    url, home, mode = sys.argv[1:]
    loop = make_loop(url, Path(home))
    die = lambda *_: os._exit(9)  # noqa: E731
    if mode == "after-commit":
        engine = loop.ledger.database.engine
        event.listen(engine, "commit", lambda connection: written.append(connection))
        event.listen(engine, "checkin", lambda *_: die() if written else None)
        written: list[object] = []
    else:
        setattr(loop.executor, mode.replace("-", "_"), die)
    from dragoman.services.jobs.states import ENDED

    while any(job.state not in ENDED for job in loop.ledger.jobs()):
        loop._take()
        loop.look()


if __name__ == "__main__":
    sys.path.insert(0, str(REPOSITORY))
    main()
