"""Children of the job service killed, stopped and slowed at random: does each job end as its own command did?

    python -m bench patience [--quick] [ray]

The service's loop, its ledger, its planners and its watch over children are real; a head of this file takes the place
of Ray's, and the jobs are commands that wait for some seconds and end with 0, 1 or 2. For ten minutes (30 s with
`--quick`) the head, whole or in part, and the planners are hit every few seconds. A command that misses its head ends
with 1 or 2, as Ray's drivers do. The figure is the number of jobs in a state that their command did not earn.

With `ray` the head is a real one, started as `dragoman up` does. It takes a while to start, so it is hit less often,
and jobs that have not ended some minutes after the last hit are told and not judged.
"""

import argparse
import contextlib
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import psutil

from bench.result import Result
from dragoman.model.confinement import RAY_FOLDER
from dragoman.model.errors import ServiceError
from dragoman.model.ports import free_ports
from dragoman.services.jobs.executors.base import Executor, Observation, Start
from dragoman.services.jobs.executors.ray import Head, RayExecutor
from dragoman.services.jobs.ledger.access import Access
from dragoman.services.jobs.ledger.database import Database
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.planning.planner import Planner
from dragoman.services.jobs.records import Request, attempt_of
from dragoman.services.jobs.scheduling.entries import Capacity
from dragoman.services.jobs.scheduling.room import Node
from dragoman.services.jobs.service.intake import Intake
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.settings import ServiceConfig
from dragoman.services.jobs.states import ENDED, UNENDED
from dragoman.services.jobs.up import subprocesses
from dragoman.services.jobs.up.children import Child, Children
from dragoman.services.jobs.up.guard import MARK

CPUS = 12.0
CODES = [0] * 7 + [1, 2, 2]
EARNED = {0: "succeeded", 1: "failed", 2: "failed"}
AFTERWARDS = 600.0, 480.0  # seconds in which the jobs end that are left when nothing is hit any more; with Ray
PAUSES = (2, 10), (60, 120)  # seconds between two hits; with Ray, which takes over a minute to start on a busy machine
PARTS = ("gcs_server", "raylet", "dashboard")  # in the command lines of Ray's processes
RUNNER = (
    "import sys, dragoman.services.jobs.runner as runner\n"
    "real = runner._run\n"
    "runner._run = lambda a, command, *more: real(a, [sys.executable, '-S', '-c', sys.argv[1], *command[4:]], *more)\n"
    "sys.exit(runner.main(sys.argv[2:]))\n"
)
COMMAND = """
import os, socket, sys, time
place = next(word.partition("=")[2] for word in sys.argv if word.startswith("paths.shards="))
port, name = int(os.environ["HEAD"]), os.path.basename(place)
_, seconds, code = name.split("-")
def head():
    try:
        socket.create_connection(("127.0.0.1", port), 20).close()
        return True
    except OSError:
        return False
if not head():
    sys.exit(2)
for _ in range(int(seconds)):
    time.sleep(1)
    if not head():
        sys.exit(1)
with open(os.environ["EARNED"], "a") as file:
    file.write(name + " " + code + "\\n")
sys.exit(int(code))
"""


def run(quick: bool, args: Sequence[str]) -> Result:
    """The number of jobs in a state that their command did not earn."""
    jobs, seconds = (20, 30.0) if quick else (200, 600.0)
    real = "ray" in args
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, contextlib.ExitStack() as stack:
        home = Path(name)
        (home / "service").mkdir()
        os.environ["DRAGOMAN_HOME"] = name
        children = Children(home / "service" / "children.json")
        stack.callback(children.stop)
        config = ServiceConfig(tick=0.5, waiting=10_000, cpus=3 if real else 0)
        executor = start_ray(home, children, config) if real else start_head(home, children)
        ledger = Ledger(Database(f"sqlite:///{home}/ledger.db"))
        stack.callback(ledger.database.close)
        planner = Planner([home])
        stack.callback(planner.close)
        loop = Loop(ledger, Access(ledger), executor, Intake(ledger, planner, "here"), config, home)
        rng = random.Random(1)
        for number in range(jobs):
            place = f"{home}/shards/j{number}-{rng.randrange(5, 30)}-{rng.choice(CODES)}"
            ledger.submit(f"o{number % 5}", "shard", ["corpus=phrasebook", f"paths.shards={place}"])
        loop.start()
        stack.callback(loop.stop)
        hits = strike(seconds, children, rng, PAUSES[real])
        deadline = time.monotonic() + AFTERWARDS[real]
        while time.monotonic() < deadline and any(job.state not in ENDED for job in ledger.jobs()):
            time.sleep(1)
        wrong = judge(ledger, home, UNENDED if real else set())
    print(f"load {os.getloadavg()[0]:.1f}; {', '.join(f'{count} {what}' for what, count in sorted(hits.items()))}")
    return Result("patience_wrong", len(wrong), 0.0, "jobs in a state that their command did not earn", "baseline")


def start_head(home: Path, children: Children) -> Executor:
    """Starts the head of this file."""
    (port,) = free_ports(1)
    variables = {**os.environ, "HEAD": str(port), "EARNED": str(home / "earned")}
    command = [sys.executable, "-m", "bench.patience", str(port)]
    children.start(Child("Head", command, variables, Path.cwd(), home / "service" / "head.log"))
    return HeadExecutor(home, port)


def start_ray(home: Path, children: Children, config: ServiceConfig) -> Executor:
    """Starts a Ray head as `dragoman up` does; the interpreter of its jobs runs COMMAND in the place of theirs."""
    places = subprocesses.choose_places(home, config, children.folder)
    subprocesses.write_token(places)
    children.start(subprocesses.ray_head(places, config, subprocesses.environment(places, config, tracking=False)))
    python = home / "python"
    words = shlex.join([sys.executable, "-c", RUNNER, COMMAND])
    python.write_text(f'#!/bin/sh\nshift 2\nexec {words} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    head = Head(f"http://127.0.0.1:{places.ray}", token_file=str(places.token))
    variables = {"HEAD": str(places.ray), "EARNED": str(home / "earned"), RAY_FOLDER: str(places.ray_folder)}
    return RayExecutor(head, home, config.drivers, str(python), variables)


def judge(ledger: Ledger, home: Path, pardoned: Collection[str]) -> list[str]:
    """Prints what became of the jobs, and returns those in another state than their command earned, but `pardoned`."""
    earned: dict[str, list[str]] = {}
    for line in (home / "earned").read_text(encoding="utf-8").splitlines() if (home / "earned").exists() else ():
        name, code = line.split()
        earned.setdefault(name, []).append(code)
    wrong, states, causes = [], Counter[str](), Counter[str]()
    for job in ledger.jobs():
        name = next(word for word in job.words if word.startswith("paths.shards=")).rpartition("/")[2]
        states[job.state] += 1
        causes.update(str(one.cause) for one in ledger.attempts(job.id))
        if job.state in pardoned:
            continue
        if name not in earned or EARNED[int(name.rpartition("-")[2])] != job.state:
            wrong.append(job.id)
            print(f"wrong: {name} {job.state}: {job.reason}")
    twice = sum(len(codes) > 1 for codes in earned.values())
    print(f"states: {dict(states)}; ends of attempts: {dict(causes)}; {twice} commands ended by themselves twice")
    return wrong


def strike(seconds: float, children: Children, rng: random.Random, pauses: tuple[int, int]) -> Counter[str]:
    """Hits the children at random for so long; returns how often each was hit, and how."""
    hits, until = Counter[str](), time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(rng.uniform(*pauses))
        victims = targets(children)
        kinds = [kind for kind, found in victims.items() if found]
        if not kinds:  # all of them are being started again
            continue
        kind = rng.choice(kinds)
        way = rng.choice(list(WAYS))
        hits[f"{kind} {way}"] += 1
        WAYS[way]([rng.choice(victims[kind])] if kind in ("planner", "part") else victims[kind], rng)
    return hits


def targets(children: Children) -> Mapping[str, list[psutil.Process]]:
    """The processes to hit: the head alone, the head with its jobs, a part of Ray's head, planners."""
    head = children.running[0].process
    with contextlib.suppress(psutil.Error):
        mine = psutil.Process().children()
        planners = [one for one in mine if "dragoman.services.jobs.planning.worker" in one.cmdline()]
        top = [one for one in mine if head is not None and one.pid == head.pid]
        whole = [one for process in top for one in [process, *process.children(recursive=True)]]
        parts = [one for one in whole[1:] if any(part in " ".join(one.cmdline()[:3]) for part in PARTS)]
        return {"head": top, "node": whole, "part": parts, "planner": planners}
    return {}


def send(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def kill(processes: Sequence[psutil.Process], rng: random.Random) -> None:
    send(processes, signal.SIGKILL)


def stop(processes: Sequence[psutil.Process], rng: random.Random) -> None:
    """For up to 40 s; others are hit meanwhile."""
    send(processes, signal.SIGSTOP)
    threading.Timer(rng.uniform(5, 40), send, (processes, signal.SIGCONT)).start()


def slow(processes: Sequence[psutil.Process], rng: random.Random) -> None:
    """A tenth of the time for up to 20 s."""
    for _ in range(rng.randrange(5, 20)):
        send(processes, signal.SIGSTOP)
        time.sleep(0.9)
        send(processes, signal.SIGCONT)
        time.sleep(0.1)


WAYS: Mapping[str, Callable[[Sequence[psutil.Process], random.Random], None]] = {
    "killed": kill,
    "stopped": stop,
    "slowed": slow,
}


class HeadExecutor:
    """The executor for the head of this file."""

    def __init__(self, home: Path, port: int) -> None:
        self.home, self.port = home, port

    def _ask(self, **question: Any) -> Any:
        try:
            answer = httpx.post(f"http://127.0.0.1:{self.port}/", json=question, timeout=10)
            return answer.raise_for_status().json()
        except httpx.HTTPError as problem:
            raise ServiceError(f"the head does not answer ({type(problem).__name__})") from None

    def submit(self, start: Start) -> None:
        words = [str(self.home), start.job, str(start.number), start.verb, *start.words]
        self._ask(id=start.id, command=[sys.executable, "-c", RUNNER, COMMAND, *words], variables=start.variables())

    def observe(self, starts: Sequence[Start]) -> dict[str, Observation]:
        found = self._ask(observe=[start.id for start in starts])["jobs"]
        return {name: Observation(state, code) for name, (state, code) in found.items()}

    def stop(self, start: Start, request: Request) -> None:
        attempt_of(self.home, start.job, start.number).ask(request)

    def kill(self, start: Start) -> None:
        self._ask(kill=start.id)

    def capacity(self) -> Capacity:
        self._ask()
        return Capacity((Node("here", CPUS),), drivers=20)

    def incarnation(self) -> str:
        return str(self._ask()["session"])

    def logs(self, start: Start, offset: int, limit: int) -> bytes:
        return attempt_of(self.home, start.job, start.number).read_log(offset, limit)


def head(port: int) -> None:
    """A head that starts commands, as Ray's does. `Children` ends them after it, and what it knew is gone."""
    jobs: dict[str, subprocess.Popen[bytes]] = {}
    session, mark = f"{os.getpid()}-{time.time()}", os.environ[MARK]

    def answer(question: Mapping[str, Any]) -> Mapping[str, Any]:
        if (name := question.get("id")) and name not in jobs:
            variables = {**os.environ, **question["variables"], MARK: mark}
            quiet = subprocess.DEVNULL
            jobs[name] = subprocess.Popen(question["command"], env=variables, stdin=quiet, stdout=quiet, stderr=quiet)
        if name := question.get("kill"):
            jobs[name].kill()
        found: dict[str, tuple[str, int | None]] = {}
        for name in question.get("observe", ()):
            code = jobs[name].poll() if name in jobs else None
            found[name] = ("absent" if name not in jobs else "running" if code is None else "ended", code)
        return {"session": session, "jobs": found}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            said = json.dumps(answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: object) -> None:
            pass

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    head(parser.parse_args().port)
