"""The job service with 10,000 jobs waiting: submit and list over HTTP, a pass of the scheduler, 100,000 jobs simulated.

    python -m bench jobs [--quick]

50 clients list and submit, each once a second, against a real server over sqlite in a temporary folder; nothing is run.
The figure is the 99th percentile of a submission in milliseconds, against the 100 that it should stay below. The rest
is printed: lists, passes, the growth of memory, and how many of 100,000 jobs a second the scheduler plays through.
"""

import random
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

import httpx
import psutil
import uvicorn

from bench.result import Result
from services.jobs.beside import free_ports
from services.jobs.executors.base import Executor
from services.jobs.ledger.access import Access
from services.jobs.ledger.database import Database
from services.jobs.ledger.ledger import Ledger
from services.jobs.ledger.tables import Job
from services.jobs.planning.planner import Planner
from services.jobs.scheduling.entries import Capacity, Entry
from services.jobs.scheduling.room import Needs, Node
from services.jobs.scheduling.simulate import Simulation
from services.jobs.service.app import Parts, create_app
from services.jobs.service.intake import Intake
from services.jobs.service.loop import Loop
from services.jobs.settings import ServiceConfig
from services.jobs.states import State

CLIENTS, GOAL = 50, 100.0  # at once; milliseconds
FULL = Capacity((Node("here", 2.0),))


def run(quick: bool, args: Sequence[str]) -> Result:
    """The 99th percentile of a submission, milliseconds."""
    assert not args
    waiting, simulated, seconds = (1000, 2000, 5.0) if quick else (10_000, 100_000, 20.0)
    simulate(simulated)
    with tempfile.TemporaryDirectory() as name:
        loop = make(Path(name), waiting)
        passes = measure_passes(loop)
        submits, lists, grown = ask(loop, seconds)
        loop.ledger.database.close()
    print(f"a pass over {waiting} waiting jobs: {statistics.median(passes):.0f} ms, slowest {max(passes):.0f}")
    print(
        f"{CLIENTS} clients: submit p50 {at(submits, 50):.0f} p99 {at(submits, 99):.0f} ms of {len(submits)}; "
        f"list p50 {at(lists, 50):.0f} p99 {at(lists, 99):.0f} ms of {len(lists)}; memory grew by {grown:.1f} MiB"
    )
    return Result("jobs_submit_p99", at(submits, 99), GOAL, "ms", "baseline")


def simulate(count: int) -> None:
    """Jobs that come a little slower than 64 CPUs can take them."""
    rng = random.Random(1)
    capacity = Capacity(tuple(Node(str(number), 8.0) for number in range(8)))
    simulation = Simulation([], {}, capacity, 0.0, lambda one: one.low)
    began, at_time = time.perf_counter(), 0.0
    for number in range(count):
        workers, length = rng.choice([1, 1, 2, 4, 8]), rng.uniform(10, 600)
        at_time += rng.expovariate(1 / 19.0)
        while (event := simulation.next_event()) is not None and event <= at_time:
            simulation.advance(event)
            simulation.step()
        simulation.advance(at_time)
        simulation.add(
            Entry(
                str(number),
                rng.choice("abc"),
                State.WAITING,
                rng.choice([0, 0, 10]),
                number,
                Needs((workers,), 1.0),
                low=length,
                high=1.5 * length,
            )
        )
        simulation.step()
    took = time.perf_counter() - began
    print(f"{count} jobs simulated in {took:.1f} s, {count / took:,.0f} a second; {simulation.yields} yielded")


def make(home: Path, waiting: int) -> Loop:
    """A service whose cluster is full, with so many jobs in its queue."""
    ledger = Ledger(Database(f"sqlite:///{home}/ledger.db"))
    with ledger.database.write() as session:
        for number in range(waiting):
            now = time.time()
            session.add(
                Job(
                    id=f"b-{number}",
                    owner=f"o{number % 50}",
                    verb="train",
                    words=["model=transformer_tiny"],
                    after=[],
                    state=State.WAITING,
                    submitted=now,
                    changed=now,
                    queued=number,
                    choices=[1 + number % 4],
                    cpus=4.0,
                    run=f"run {number}",
                    seconds_low=100.0,
                    seconds_high=200.0,
                )
            )
    config = ServiceConfig(rate=1e9, burst=10**9, waiting=10**9, tick=1.0)
    planner = Planner([home])
    loop = Loop(ledger, Access(ledger), cast(Executor, None), Intake(ledger, planner, "here"), config, home)
    loop.capacity = FULL
    return loop


def measure_passes(loop: Loop) -> list[float]:
    """Milliseconds of twenty passes, the first of which reads everything."""
    loop.passes.run(FULL)
    print(f"the first pass, which reads everything: {1000 * loop.passes.seconds:.0f} ms")
    found = []
    for _ in range(20):
        loop.passes.run(replace(FULL))
        found.append(1000 * loop.passes.seconds)
    return found


def ask(loop: Loop, seconds: float) -> tuple[list[float], list[float], float]:
    """Milliseconds of submissions and lists, and the MiB that the process grew by."""
    (port,) = free_ports(1)
    parts = Parts(loop.ledger, loop.passes.access, loop, loop.config, loop.home, False)
    server = uvicorn.Server(uvicorn.Config(create_app(parts), port=port, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    before = psutil.Process().memory_info().rss
    with ProcessPoolExecutor(1, get_context("spawn")) as other:  # the clients share no interpreter with the server
        submits, lists = other.submit(clients, port, seconds).result()
    grown = (psutil.Process().memory_info().rss - before) / 2**20
    server.should_exit = True
    thread.join()
    return submits, lists, grown


def clients(port: int, seconds: float) -> tuple[list[float], list[float]]:
    """Milliseconds of submissions and of lists: half of the clients submit, half list, each once a second."""
    submits: list[float] = []
    lists: list[float] = []
    end = time.monotonic() + seconds

    def client(number: int) -> None:
        body: dict[str, Any] = {"verb": "train", "overrides": ["model=transformer_tiny"]}
        headers = {"X-Dragoman-Owner": f"o{number}"}
        submit = number % 2 == 0
        time.sleep(number / CLIENTS)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60) as http:
            while time.monotonic() < end:
                began = time.perf_counter()
                answer = http.post("/v1/jobs", json=body) if submit else http.get("/v1/jobs", params={"limit": 50})
                answer.raise_for_status()
                (submits if submit else lists).append(1000 * (time.perf_counter() - began))
                time.sleep(1.0)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return submits, lists


def at(values: Sequence[float], percent: int) -> float:
    """A percentile."""
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]
