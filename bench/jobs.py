"""The job service with 10,000 jobs waiting: submit, list and follow over HTTP while jobs start and end.

    python -m bench jobs [--quick] [postgresql://USER@HOST/NAME]

50 clients submit, list, follow and ask why, each once a second, against a real server over sqlite in a temporary folder
(or the empty database that is named), whose loop plans, passes and starts; the cluster is pretended, its jobs end after
seconds. The figure is the 99th percentile of a submission in milliseconds, against the 100 that it should stay below.
The rest is printed: lists, passes, decisions, the growth of memory.
"""

import contextlib
import json
import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil

from bench.result import Result
from dragoman.services.http.listening import bind
from dragoman.services.jobs.executor import Observation, Start
from dragoman.services.jobs.http.listening import serving
from dragoman.services.jobs.http.parts import ServiceParts
from dragoman.services.jobs.ledger.access import Access
from dragoman.services.jobs.ledger.database import Database, Job
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.planning.planner import Planner
from dragoman.services.jobs.records import Request
from dragoman.services.jobs.scheduling.decide import decide
from dragoman.services.jobs.scheduling.entries import Capacity, Entry
from dragoman.services.jobs.scheduling.room import Needs, Node
from dragoman.services.jobs.service.intake import Intake
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.settings import ServiceConfig
from dragoman.services.jobs.states import State
from dragoman.services.jobs.up.app import create_app

CLIENTS, GOAL = 50, 100.0  # at once; milliseconds
NODES = tuple(Node(str(number), 8.0) for number in range(8))
CLUSTER = Capacity(NODES, drivers=20)


def run(quick: bool, args: Sequence[str]) -> Result:
    """The 99th percentile of a submission, milliseconds."""
    waiting, seconds = (1000, 5.0) if quick else (10_000, 20.0)
    measure_passes(waiting)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:  # a plan that ends late writes to its ledger
        loop = make(Path(name), waiting, args[0] if args else f"sqlite:///{name}/ledger.db")
        with at_work(loop) as port, watching(loop) as seen:
            asked = ask(port, loop.home, seconds)
        loop.intake.planner.close()
        counts = loop.ledger.counts()
        loop.ledger.database.close()
    print(f"{waiting} jobs waiting at first; at the end {counts}")
    print(
        f"{len(seen.passes)} passes: p50 {at(seen.passes, 50):.1f} p99 {at(seen.passes, 99):.1f} "
        f"slowest {max(seen.passes):.1f} ms; memory at first {seen.memory[0]:.0f}, in the middle "
        f"{seen.memory[len(seen.memory) // 2]:.0f}, at the end {seen.memory[-1]:.0f} MiB"
    )
    for what, times in asked.items():
        print(f"{what:<7} p50 {at(times, 50):.1f} p99 {at(times, 99):.1f} slowest {max(times):.1f} ms of {len(times)}")
    return Result("jobs_submit_p99", at(asked["submit"], 99), GOAL, "ms", "baseline")


def entries(count: int) -> Iterator[Entry]:
    """Jobs of many sizes, owners and priorities."""
    rng = random.Random(1)
    for number in range(count):
        needs = Needs((rng.choice([1, 1, 2, 4, 8]),), 1.0)
        yield Entry(
            str(number), f"o{rng.randrange(50)}", State.WAITING, rng.choice([0, 0, 10]), number, needs, seconds=300.0
        )


def measure_passes(count: int) -> None:
    """Decisions over so many waiting jobs."""
    jobs, found = list(entries(count)), []
    for _ in range(20):
        began = time.process_time()
        decide(jobs, CLUSTER, 0.0)
        found.append(1000 * (time.process_time() - began))
    print(f"a decision over {count} jobs: median {statistics.median(found):.2f} ms, slowest {max(found):.2f}")


class Pretended:
    """A cluster whose jobs run for seconds, and nowhere."""

    def __init__(self) -> None:
        self.ends: dict[str, float] = {}
        self.rng = random.Random(1)

    def submit(self, start: Start) -> None:
        self.ends.setdefault(start.id, time.monotonic() + self.rng.uniform(2, 10))

    def observe(self, starts: Sequence[Start]) -> dict[str, Observation]:
        now = time.monotonic()
        return {
            one.id: Observation("running") if self.ends.get(one.id, now) > now else Observation("ended", 0)
            for one in starts
        }

    def stop(self, start: Start, request: Request) -> None:
        self.ends[start.id] = 0.0

    def kill(self, start: Start) -> None:
        self.ends[start.id] = 0.0

    def capacity(self) -> Capacity:
        return CLUSTER

    def incarnation(self) -> str:
        return "one"

    def logs(self, start: Start, offset: int, limit: int) -> bytes:
        return b""


def make(home: Path, waiting: int, url: str) -> Loop:
    """A service with so many jobs in its queue."""
    ledger = Ledger(Database(url))
    plan = {"seconds": {}, "words": [], "filler": "x" * 4000}  # as large as a real one
    with ledger.database.write() as session:
        for entry in entries(waiting):
            now = time.time()
            job: dict[str, Any] = {"id": f"b-{entry.id}", "owner": entry.owner, "verb": "train", "words": ["name=x"]}
            job |= {"after": [], "tags": [], "state": State.WAITING}
            job |= {"submitted": now, "changed": now, "queued": entry.age}
            job |= {"choices": list(entry.needs.choices), "cpus": 1.0, "run": f"run {entry.id}", "plan": plan}
            session.add(Job(**job, priority=entry.priority, seconds=entry.seconds))
    config = ServiceConfig(rate=1e9, burst=10**9, waiting=10**9)
    os.environ["DRAGOMAN_HOME"] = str(home)  # as `dragoman up` sets it: plans are accepted, and its planner is ready
    planner = Planner([home])
    planner.plan("shard", ["corpus=everyday"])
    return Loop(ledger, Access(ledger), Pretended(), Intake(ledger, planner, "here"), config, home)


@dataclass
class Seen:
    """Milliseconds of passes, MiB of the process."""

    passes: list[float]
    memory: list[float]


@contextlib.contextmanager
def watching(loop: Loop) -> Iterator[Seen]:
    """Writes down every pass from now on, and the memory now and then."""
    seen, ending, process = Seen([], []), threading.Event(), psutil.Process()
    decide: Callable[[Capacity], object] = loop.scheduler.run

    def timed(capacity: Capacity) -> Any:
        outcome = decide(capacity)
        seen.passes.append(1000 * loop.scheduler.seconds)
        return outcome

    def watch() -> None:
        while not ending.wait(0.2):
            seen.memory.append(process.memory_info().rss / 2**20)

    loop.scheduler.run = timed  # type: ignore[method-assign]  # to listen in
    thread = threading.Thread(target=watch)
    thread.start()
    yield seen
    ending.set()
    thread.join()


@contextlib.contextmanager
def at_work(loop: Loop) -> Iterator[int]:
    """The port where the service answers, its loop at work."""
    listening = bind("127.0.0.1", 0, "service")
    parts = ServiceParts(loop.ledger, loop.scheduler.access, loop, loop.config, loop.home, False)
    with serving(create_app(parts), listening, loop.config):
        loop.start()
        while loop.scheduler.seconds == 0:
            time.sleep(0.05)
        print(f"the first pass, which reads everything: {1000 * loop.scheduler.seconds:.0f} ms")
        try:
            yield listening.getsockname()[1]
        finally:
            loop.stop()


def ask(port: int, home: Path, seconds: float) -> dict[str, list[float]]:
    """Milliseconds of every request by its kind."""
    with ProcessPoolExecutor(1, get_context("spawn")) as other:  # the clients share no interpreter with the server
        return other.submit(clients, port, str(home), seconds).result()


def clients(port: int, home: str, seconds: float) -> dict[str, list[float]]:
    """Twenty submit, twenty list, nine follow the changes, one asks why; each once a second."""
    found: dict[str, list[float]] = {"submit": [], "list": [], "follow": [], "why": []}
    kinds = ["submit"] * 20 + ["list"] * 20 + ["follow"] * 9 + ["why"]
    gate = threading.Barrier(CLIENTS)

    def client(number: int) -> None:
        kind = kinds[number]
        words = ["corpus=everyday", f"cluster.workers={1 + number % 2}"]
        body = {"verb": "shard", "overrides": words}
        headers = {"X-Dragoman-Owner": f"o{number}"}
        connection = HTTPConnection("127.0.0.1", port, timeout=60)  # kept alive
        newest = ask_once(connection, "GET", "/v1/jobs?limit=1", headers)["jobs"][0]["id"]
        connection.close()  # it would time out while others begin
        gate.wait()
        end = time.monotonic() + seconds
        time.sleep(number / CLIENTS)
        while time.monotonic() < end:
            began = time.perf_counter()
            match kind:
                case "submit":
                    ask_once(connection, "POST", "/v1/jobs", headers, body)
                case "list":
                    ask_once(connection, "GET", "/v1/jobs?limit=50", headers)
                case "follow":
                    follow(connection, headers)
                case _:
                    ask_once(connection, "GET", f"/v1/jobs/{newest}/why", headers)
            found[kind].append(1000 * (time.perf_counter() - began))
            time.sleep(1.0)

    with ThreadPoolExecutor(CLIENTS) as pool:
        for done in [pool.submit(client, number) for number in range(CLIENTS)]:
            done.result()
    return found


def ask_once(
    connection: HTTPConnection, method: str, path: str, headers: Mapping[str, str], body: Any = None
) -> dict[str, Any]:
    """What is answered, read to its end."""
    content = None if body is None else json.dumps(body).encode()
    connection.request(method, path, content, {**headers, "Content-Type": "application/json"})
    answer = connection.getresponse()
    found: dict[str, Any] = json.loads(answer.read())
    if answer.status >= 400:
        raise RuntimeError(f"{method} {path}: {answer.status} {found}")
    return found


def follow(connection: HTTPConnection, headers: Mapping[str, str]) -> None:
    """Connect to the stream of changes, and wait for the next one."""
    newest = ask_once(connection, "GET", "/v1/jobs?limit=1", headers)["newest"]
    stream = HTTPConnection(connection.host, connection.port, timeout=60)
    with contextlib.closing(stream):
        stream.request("GET", f"/v1/events?after={newest}", headers=dict(headers))
        answer = stream.getresponse()
        while not (line := answer.readline()).startswith(b"data: "):
            if not line:
                raise RuntimeError("the stream of changes ended")
        json.loads(line.removeprefix(b"data: "))


def at(values: Sequence[float], percent: int) -> float:
    """A percentile."""
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]
