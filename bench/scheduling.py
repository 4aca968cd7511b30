"""The scheduler's fairness, simulated (ours), and without its rules (baseline): preemptions of one low training.

    python -m bench scheduling [--quick]

Four simulations, each with the settings of `service` (`preempt_after`, `patience`, `fair_share`) and with all of them
off, that is by priority and age alone:

quota       a job of 2 CPUs and 200 younger ones of 1, all of one owner with a quota of 2 CPUs of 8
share       an owner with 2,000 older jobs, and one with 200
patience    a job of low priority, while others of high priority always wait
thrash      a low training with a start-up of 30 s, and a short job of high priority every 45 s

Then 100,000 jobs (--quick: 2,000) of 50 owners are played through, and a pass over 10,000 waiting jobs is timed, with
the rules and without, with quotas and without.
"""

import random
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bench.jobs import CLUSTER, NODES, entries
from bench.result import Result
from dragoman.services.jobs.scheduling.decide import decide_queue
from dragoman.services.jobs.scheduling.entries import Capacity, Entry
from dragoman.services.jobs.scheduling.queue import Queue
from dragoman.services.jobs.scheduling.room import Needs, Node
from dragoman.services.jobs.scheduling.rules import Rules
from dragoman.services.jobs.scheduling.simulate import Simulation
from dragoman.services.jobs.service.scheduler import rules as settings
from dragoman.services.jobs.settings import ServiceConfig
from dragoman.services.jobs.states import Quota, State

EIGHT = Capacity((Node("a", 8.0),))
HOUR = 3600.0
OFF = Rules()


def run(quick: bool, args: Sequence[str]) -> Result:
    """Preemptions of the low training in two and a half hours."""
    found = {}
    for name, rules in (("off", OFF), ("on", on())):
        print(f"rules {name}: {quota(rules)}", flush=True)
        print(f"rules {name}: {share(rules)}", flush=True)
        print(f"rules {name}: {patience(rules)}", flush=True)
        text, found[name] = thrash(rules)
        print(f"rules {name}: {text}", flush=True)
        play(2000 if quick else 100_000, rules, name)
        for bounds in ({}, {f"o{number}": Quota(4.0) for number in range(50)}):
            pass_time(1000 if quick else 10_000, rules, bounds, name)
    return Result("scheduling", found["on"], found["off"], "preemptions of one low training", "baseline")


def on() -> Rules:
    """The settings as they are delivered."""
    return settings(ServiceConfig()).copy()


def job(number: int, size: int, owner: str, seconds: float, now: float, priority: int = 0) -> Entry:
    """It is expected to take at most 1.2 times as long as it does."""
    times: dict[str, Any] = {"low": seconds, "high": 1.2 * seconds, "since": now}
    return Entry(f"j{number}", owner, State.WAITING, priority, number, Needs((size,), 1.0), **times)


def until(simulation: Simulation, moment: float) -> None:
    """Let time pass, with a pass at every end of a job."""
    simulation.step()
    while (at := simulation.next_event()) is not None and at <= moment:
        simulation.advance(at)
        simulation.step()
    simulation.advance(moment)


def quota(rules: Rules) -> str:
    """How many younger jobs of its owner start before the job that needs all of the quota."""
    simulation = Simulation(Queue(), {"anna": Quota(cpus=2.0)}, EIGHT, 0.0, lambda one: one.low, rules)
    simulation.add(job(0, 1, "anna", 50.0, 0.0))
    until(simulation, 0.0)
    simulation.add(job(1, 2, "anna", 100.0, 0.0))
    for number in range(2, 202):
        simulation.add(job(number, 1, "anna", 90.0 + number % 20, simulation.now))
        until(simulation, simulation.now + 45.0)
    while "j1" not in simulation.first:
        until(simulation, simulation.next_event() or simulation.now)
    at = simulation.first["j1"]
    overtaken = sum(when < at for name, when in simulation.first.items() if name not in ("j0", "j1"))
    return f"quota: {overtaken} of 200 younger jobs start before the job of 2 CPUs, which waits {at:,.0f} s"


def share(rules: Rules) -> str:
    """What two owners get of the first day, and when the second one's first job starts."""
    simulation = Simulation(Queue(), {}, EIGHT, 0.0, lambda one: one.low, rules)
    for number in range(2000):
        simulation.add(job(number, 1, "ben", HOUR, 0.0))
    until(simulation, 1.0)
    for number in range(2000, 2200):
        simulation.add(job(number, 1, "anna", HOUR, 1.0))
    until(simulation, 24 * HOUR)
    counts = Counter("anna" if int(name[1:]) >= 2000 else "ben" for name in simulation.first)
    until(simulation, 300 * HOUR)
    waits = f"anna's first waits {simulation.first['j2000'] / HOUR:.0f} h"
    return f"share: ben starts {counts['ben']}, anna {counts['anna']} jobs on the first day; {waits}"


def patience(rules: Rules) -> str:
    """When the low job starts; a week is simulated."""
    simulation = Simulation(Queue(), {}, EIGHT, 0.0, lambda one: one.low, rules)
    simulation.add(job(0, 8, "ben", HOUR, 0.0, priority=10))
    simulation.step()
    simulation.add(job(1, 4, "anna", HOUR, 0.0, priority=-10))
    number = 2
    while simulation.now < 168 * HOUR and "j1" not in simulation.first:
        while len(simulation.jobs) < 30:
            simulation.add(job(number, 1 + number % 8, "ben", HOUR, simulation.now, priority=10))
            number += 1
        until(simulation, simulation.next_event() or simulation.now)
    started = (
        f"waits {simulation.first['j1'] / HOUR:.1f} h" if "j1" in simulation.first else "has not started after a week"
    )
    return f"patience: the low job {started}"


def thrash(rules: Rules) -> tuple[str, int]:
    """How often a low training of an hour makes room, and what that costs."""
    simulation = Simulation(Queue(), {}, EIGHT, 0.0, lambda one: one.low, rules, start_up=30.0)
    simulation.add(job(0, 8, "anna", HOUR, 0.0, priority=-10))
    for number in range(1, 201):
        until(simulation, 45.0 * number)
        simulation.add(job(number, 8, "ben", 10.0, simulation.now, priority=10))
    while simulation.jobs:
        until(simulation, simulation.next_event() or simulation.now)
    ended = simulation.ended["j0"] / HOUR
    lost = f"{simulation.lost:,.0f} s of start-up lost"
    return f"thrash: {simulation.yields} preemptions, {lost}; it ends after {ended:.1f} h", simulation.yields


def play(count: int, rules: Rules, name: str) -> None:
    """Jobs of 50 owners that come a little slower than 64 CPUs can take them; owner 0 asks for half of it all."""
    rng = random.Random(1)
    simulation = Simulation(Queue(), {}, Capacity(NODES), 0.0, lambda one: one.low, rules)
    began, at_time = time.process_time(), 0.0
    came: dict[str, float] = {}
    for entry in entries(count):
        at_time += rng.expovariate(1 / 19.0)
        until(simulation, at_time)
        came[entry.id] = at_time
        simulation.add(replace(entry, since=at_time))
        simulation.step()
    took = time.process_time() - began
    waits = [at - came[name] for name, at in simulation.first.items()]
    print(
        f"rules {name}: {count:,} jobs simulated in {took:.1f} s of a core, {count / took:,.0f} a second; "
        f"{simulation.yields} yielded; waited: median {statistics.median(waits):.0f}, longest {max(waits):,.0f} s",
        flush=True,
    )


def pass_time(waiting: int, rules: Rules, bounds: dict[str, Quota], name: str) -> None:
    """All of them waiting at once: a pass at every end of a job."""
    simulation = Simulation(Queue(entries(waiting)), bounds, CLUSTER, 0.0, lambda one: one.low, rules)
    found = []
    for _ in range(300):
        simulation.step()
        event = simulation.next_event()
        assert event is not None
        simulation.advance(event)
        began = time.process_time()
        decide_queue(simulation.queue, bounds, CLUSTER, simulation.now, simulation.rules)
        found.append(1000 * (time.process_time() - began))
    print(
        f"rules {name}, {len(bounds)} quotas: a pass over {waiting:,} waiting jobs: median "
        f"{statistics.median(found):.2f} ms, slowest {max(found):.2f}",
        flush=True,
    )
