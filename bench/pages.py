"""The job service's pages with 10,000 jobs waiting and a sweep of 1,000 trials: how long a browser waits for a list.

    python -m bench pages [--quick]

A real server over sqlite in a temporary folder, its loop at work, the cluster pretended (as in `jobs`). The figure is
the 95th percentile of the slowest list in milliseconds, against the 200 that each should stay below; the pages of
a job and of a log of 100,000 lines, CSV and others are printed.
"""

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from bench.jobs import at, at_work, make
from bench.result import Result
from dragoman.services.jobs.ledger.tables import Attempt, Job
from dragoman.services.jobs.pages.jobpage import PARENT
from dragoman.services.jobs.records import attempt_of
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.states import State

GOAL = 200.0  # milliseconds
OWNER = "o7"  # who looks
SWEEP = "5" * 32  # the run above the trials
LINES = 100_000  # of a log
LISTS = {
    **{"all": "/", "waiting": "/?state=waiting", "waiting, page 100": "/?state=waiting&place=4950"},
    **{"failed": "/?state=failed", "owner": "/?owner=o7", "text": "/?q=n", "text, none": "/?q=nothing-like-it"},
    **{"field: state": "/?q=state:failed,lost", "field: name": "/?q=name:trial-9*", "field: tag": "/?q=tag:nightly"},
    **{"field: model": "/?q=model:demo", "fields": "/?q=state:succeeded+verb:train+since:2d+lr"},
    **{"sweep": f"/?sweep={SWEEP}", "sweep, failed": f"/?sweep={SWEEP}&state=failed", "script": "/recent.json"},
}


def run(quick: bool, args: Sequence[str]) -> Result:
    """The 95th percentile of the slowest list, milliseconds."""
    waiting, trials, times = (1000, 100, 10) if quick else (10_000, 1000, 60)
    with tempfile.TemporaryDirectory() as name:
        loop = make(Path(name), waiting, f"sqlite:///{name}/ledger.db")
        trial = add_trials(loop, trials)
        headers = {"X-Dragoman-Owner": OWNER}
        with at_work(loop) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as browser:
            browser.headers.update(headers)
            newest = browser.get("/v1/jobs", params={"limit": 1, "state": "waiting"}).json()["jobs"][0]["id"]
            lists = measure(browser, LISTS, times)
            others = {
                "job": f"/jobs/{newest}",
                "trial": f"/jobs/{trial}",
                "log": f"/jobs/{trial}/log.txt",
            }
            measure(browser, {**others, "cluster": "/cluster", "submit": "/submit?verb=shard"}, times)
            measure(browser, {"CSV of the sweep": f"/jobs.csv?sweep={SWEEP}", "CSV of all": "/jobs.csv"}, 5)
        loop.intake.planner.close()
        loop.ledger.database.close()
    return Result("pages", max(at(found, 95) for found in lists.values()), GOAL, "ms for the slowest list", "baseline")


def add_trials(loop: Loop, count: int) -> str:
    """Enters the ended trials of a sweep; returns the id of one that has a long log."""
    prefix, now, jobs, attempts = loop.ledger.database.prefix, time.time(), list[Job](), list[Attempt]()
    for number in range(count):
        name, state = f"{prefix}-t{number}", State.FAILED if number % 4 == 3 else State.SUCCEEDED
        words = [f"name=trial-{number}", f"train.optimizer.lr={number / count:g}", f"{PARENT}{SWEEP}"]
        plan = {"seconds": {}, "words": words, "filler": "x" * 4000}
        job: dict[str, Any] = {
            "id": name,
            "owner": OWNER,
            "verb": "train",
            "words": words,
            "run": f"run trial-{number}",
        }
        job |= {"after": [], "tags": ["nightly"], "notify": [], "state": state, "submitted": now, "changed": now}
        job |= {"queued": number, "plan": plan, "choices": [1], "cpus": 1.0, "attempt": 1, "model": "demo"}
        ran = {
            "workers": 1,
            "decided": now,
            "started": now,
            "ended": now,
            "outcome": str(state),
            "cause": "end",
            "code": 0,
        }
        jobs.append(Job(**job))
        attempts.append(Attempt(job=name, number=1, message="", **ran))
    with loop.ledger.database.write() as session:
        session.add_all(jobs)
        session.flush()
        session.add_all(attempts)
    log = attempt_of(loop.home, name, 1).log
    log.parent.mkdir(parents=True)
    log.write_text("".join(f"step {step} | loss {step % 1000 / 1000:.3f}\n" for step in range(LINES)))
    return name


def measure(browser: httpx.Client, pages: Mapping[str, str], times: int) -> dict[str, list[float]]:
    """Prints and returns the milliseconds of each page."""
    took = {}
    for page, address in pages.items():
        found = took[page] = _times(browser, address, times)
        print(f"{page:<18} median {at(found, 50):.0f} ms, 95th percentile {at(found, 95):.0f} ms", flush=True)
    return took


def _times(browser: httpx.Client, address: str, times: int) -> list[float]:
    """Milliseconds of each request, body included."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        browser.get(address).raise_for_status()
        found.append((time.perf_counter() - began) * 1000)
        time.sleep(0.05)
    return found
