"""A job service for its pages: a ledger with jobs of every kind, a stand-in for MLflow, a server that
can be stopped and started again on its port."""

import contextlib
import json
import math
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from dragoman.services.jobs.ledger.database import Job
from dragoman.services.jobs.records import attempt_of
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.states import State
from tests.services.jobs.at_work import listening
from tests.services.jobs.planner_here import PlannerHere
from tests.services.jobs.processes import make_loop

LONG = "a-very-long-name-" * 11 + "that-ends-here"  # 201 characters
RIGHT_TO_LEFT = "مترجم-العربية-الإنجليزية"
HOSTILE = "<script>alert(1)</script>"


class World:
    """`start` and `stop` are the service's; the ledger and what stands in for others stay."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.loop: Loop = make_loop(f"sqlite:///{home}/ledger.db", home)
        self.loop.capacity = self.loop.executor.capacity()
        self.loop.intake.plans.planner = PlannerHere([home])
        self._home_before = os.environ.get("DRAGOMAN_HOME")
        os.environ["DRAGOMAN_HOME"] = str(home)  # for the planner
        self.ledger = self.loop.ledger
        self.others = ThreadingHTTPServer(("127.0.0.1", 0), Others)
        threading.Thread(target=self.others.serve_forever, daemon=True).start()
        self.port, self.keys = 0, False
        self._serving = contextlib.ExitStack()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, keys: bool = False) -> None:
        other = f"http://127.0.0.1:{self.others.server_address[1]}"
        served = listening(self.loop, keys, self.port, tracking=other, tracking_pages=other)
        self.port = self._serving.enter_context(served)

    @contextlib.contextmanager
    def visit(self, token: str | None = None) -> Iterator[httpx.Client]:
        """A browser of the service, which asks for tokens if there is one; an empty one signs nobody in."""
        self.start(keys=token is not None)
        with httpx.Client(base_url=self.address, follow_redirects=True, timeout=120) as client:
            if token:
                client.post("/login", data={"token": token})
            yield client

    def tokens(self, **roles: str) -> dict[str, str]:
        """Tokens of these owners, after an admin's."""
        issue = self.loop.scheduler.access.issue
        issue("r", "root", "admin", "up")
        return {owner: issue(owner, owner, role, "root") for owner, role in roles.items()}

    def stop(self) -> None:
        self._serving.close()

    def close(self) -> None:
        self.stop()
        self.others.shutdown()
        self.others.server_close()
        self.loop.intake.planner.close()
        os.environ.pop("DRAGOMAN_HOME")
        if self._home_before is not None:
            os.environ["DRAGOMAN_HOME"] = self._home_before
        self.ledger.database.close()

    # ------------------------------------------------------------------ jobs

    def job(self, name: str, state: State = State.WAITING, owner: str = "anna", **more: Any) -> Job:
        """A training that has come as far as `state`."""
        changed = {"model.dropout": 0.1, "name": name, **more.pop("changed", {})}
        plan = {
            **{
                "verb": "train",
                "words": [],
                "elastic": False,
                "spreads": False,
                "choices": [1],
                "claims": f"run {name}",
            },
            **{"model": "", "run_dir": str(self.home / "runs" / name), "cpus": 1.0, "gpus": 0.0, "changed": changed},
            **{"steps": 600, "tokens": 2_340_000, "flops": 3.1e13, "parameters": 2_610_000, "memory": 96 << 20},
            **{"fingerprint": "ab" * 32, "shape": "s"},
            "seconds": {"1": 360.0},
        }
        words = [f"name={name}", "model.dropout=0.1", *more.pop("words", [])]
        job = self.ledger.submit(owner, "train", words, name=name, **more)
        planned = {
            "plan": plan,
            "choices": [1],
            "cpus": 1.0,
            "run": f"run {name}",
            "seconds": 360.0,
        }
        for step in (State.PLANNED, State.WAITING):
            job = self.ledger.change(job, step, "planner", "planned" if step == State.PLANNED else "waits", **planned)
            planned = {}
        if state == State.WAITING:
            return job
        if state == State.STOPPED:
            return self.ledger.change(job, State.STOPPED, owner, f"stopped by {owner}")
        with self.ledger.database.write() as session:
            job = self.ledger.begin(session, job, 1, "scheduler", "fits")
        job = self.ledger.mark_started(job)
        self.curves(name, 600 if state == State.SUCCEEDED else 240)
        self.write(job, "".join(f"step {step}\n" for step in range(1, 200)))
        if state == State.SUCCEEDED:
            job = self.ledger.end(job, state, "succeeded", "end", "succeeded", 0)
        elif state in (State.FAILED, State.LOST):
            job = self.ledger.end(job, state, str(state), "exit", "ValueError: it broke", 1)
        return job

    def write(self, job: Job, text: str) -> None:
        path = attempt_of(self.home, job.id, job.attempt).log
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(text)

    def curves(self, name: str, steps: int) -> None:
        run = self.home / "runs" / name
        run.mkdir(parents=True, exist_ok=True)
        lines = []
        for step in range(1, steps + 1):
            loss = 8 * math.exp(-step / 150) + 1.4 + 0.05 * math.sin(step)
            lines.append({"step": step, "loss": loss, "lr": 0.004 * step / 600, "norm": 1.0, "seconds": step * 0.5})
            if step % 100 == 0:
                lines.append({"step": step, "valid_loss": loss - 1, "seconds": step * 0.5})
        (run / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


class Others(BaseHTTPRequestHandler):
    """MLflow's REST interface, as far as pages ask it."""

    def do_GET(self) -> None:
        known = urlsplit(self.path).path.endswith("runs/get")
        found = {"run": {"info": {"experiment_id": "1"}}} if known else {"error_code": "RESOURCE_DOES_NOT_EXIST"}
        body = json.dumps(found).encode()
        self.send_response(200 if known else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass
