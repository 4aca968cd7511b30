"""The job service's pages with 10,000 jobs waiting: how long a browser waits for the list's document.

    python -m bench pages [--quick]

A real server over sqlite in a temporary folder, its loop at work, the cluster pretended (as in `jobs`). The figure is
the 95th percentile of a list in milliseconds, against the 200 that it should stay below; the rest is printed.
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import httpx

from bench.jobs import at, at_work, make
from bench.result import Result

GOAL = 200.0  # milliseconds


def run(quick: bool, args: Sequence[str]) -> Result:
    """The 95th percentile of a list, milliseconds."""
    waiting, times = (1000, 10) if quick else (10_000, 60)
    with tempfile.TemporaryDirectory() as name:
        loop = make(Path(name), waiting, f"sqlite:///{name}/ledger.db")
        with at_work(loop) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as browser:
            newest = browser.get("/v1/jobs", params={"limit": 1}).json()["jobs"][0]["id"]
            pages = {"list": "/", "waiting": "/?state=waiting", "found": "/?q=n", "job": f"/jobs/{newest}"}
            took = {
                page: _times(browser, address, times) for page, address in (*pages.items(), ("cluster", "/cluster"))
            }
    for page, found in took.items():
        print(f"{page:<8} median {at(found, 50):.0f} ms, 95th percentile {at(found, 95):.0f} ms")
    return Result("pages", at(took["list"], 95), GOAL, "ms for the list of jobs, 95th percentile", "baseline")


def _times(browser: httpx.Client, address: str, times: int) -> list[float]:
    """Milliseconds of each request, body included."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        browser.get(address).raise_for_status()
        found.append((time.perf_counter() - began) * 1000)
        time.sleep(0.05)
    return found
