"""A job service for its pages: a ledger with jobs of every kind, a stand-in for MLflow and the endpoint, a server that
can be stopped and started again on its port."""

import base64
import contextlib
import json
import math
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from dragoman.model.usage.points import PointsFile
from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.planning.planner import Planner
from dragoman.services.jobs.records import attempt_of
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.states import State
from tests.services.jobs.at_work import listening
from tests.services.jobs.processes import make_loop

LONG = "a-very-long-name-" * 11 + "that-ends-here"  # 201 characters
RIGHT_TO_LEFT = "مترجم-العربية-الإنجليزية"
HOSTILE = "<script>alert(1)</script>"
OPTIONS = {"priority": "normal", "tags": [], "notify": [], "retries": 0, "max_hours": None}  # of a schedule
DIGEST = "9af2a2d1c69c" + "0" * 52
TAGS = {
    **{"bundle_kind": "translation", "pair": "en-de", "architecture": "transformer", "run_name": "base"},
    **{
        "test_bleu": "88.2208",
        "test_chrf": "94.8517",
        "test_signature": "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp",
    },
    **{"manifest_hash": DIGEST, "config_hash": "ab" * 32, "bundle_hash": "cd" * 32, "bundle_bytes": "17385428"},
    "train.init_from": "broad-en-de@champion (run broad, bundle 0123456789ab)",
    **{"shard_run_id": "5" * 32, "git_commit": "c22f2947f93f90e7"},
}
SAMPLES = {
    "columns": ["source", "translation", "reference"],
    "data": [["A dog runs.", "Ein Hund läuft.", HOSTILE], ["A cat.", "Eine Katze.", "Die Katze."]],
}
PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==")
ARTIFACTS = {
    "samples.json": json.dumps(SAMPLES).encode(),
    "attention.png": PIXEL,
    "alignment/maps.png": b"<svg onload=alert(1)>",
}
MOVE = {"action": "promoted", "to": "2", "before": "1", "by": "anna@here", "time": "2026-03-01T10:00:00.000000Z"}


def csrf(page: str) -> str:
    """Returns the token of a page's forms."""
    found = re.search(r'name="csrf" value="(\w+)"', page)
    assert found is not None
    return found[1]


class World:
    """`start` and `stop` are the service's; the ledger and what stands in for others stay."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.loop: Loop = make_loop(f"sqlite:///{home}/ledger.db", home)
        self.loop.capacity = self.loop.executor.capacity()
        self.loop.intake.planner = Planner([home])
        self._home_before = os.environ.get("DRAGOMAN_HOME")
        os.environ["DRAGOMAN_HOME"] = str(home)  # for the planner's process
        self.ledger = self.loop.ledger
        self.others = ThreadingHTTPServer(("127.0.0.1", 0), Others)
        threading.Thread(target=self.others.serve_forever, daemon=True).start()
        self.others.serves = {"name": "demo-en-de", "version": "2"}  # type: ignore[attr-defined]  # the endpoint's model
        self.port, self.keys = 0, False
        self._serving = contextlib.ExitStack()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, keys: bool = False) -> None:
        other = f"http://127.0.0.1:{self.others.server_address[1]}"
        served = listening(self.loop, keys, self.port, tracking=other, tracking_pages=other, endpoint=other)
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

    def serve(self, model: dict[str, str] | None) -> None:
        """What the endpoint answers with from now on; None: nothing."""
        self.others.serves = model  # type: ignore[attr-defined]  # as above

    # ------------------------------------------------------------------ jobs

    def job(self, name: str, state: State = State.WAITING, owner: str = "anna", **more: Any) -> Job:
        """A training that has come as far as `state`."""
        changed, every = {"model.dropout": 0.1, "name": name, **more.pop("changed", {})}, more.pop("every", 5.0)
        plan = {
            **{
                "verb": "train",
                "words": [],
                "elastic": False,
                "spreads": False,
                "choices": [1],
                "claims": f"run {name}",
            },
            **{"run": name, "run_dir": str(self.home / "runs" / name), "cpus": 1.0, "gpus": 0.0, "changed": changed},
            **{"steps": 600, "tokens": 2_340_000, "flops": 3.1e13, "parameters": 2_610_000, "memory": 96 << 20},
            **{"fingerprint": "ab" * 32, "traffic": {}, "shape": "s", "lanes": 2},
            "seconds": {"1": {"low": 300.0, "expected": 360.0, "high": 450.0, "basis": "4 jobs like it"}},
        }
        words = [f"name={name}", "model.dropout=0.1", *more.pop("words", [])]
        job = self.ledger.submit(owner, "train", words, **more)
        planned = {
            "plan": plan,
            "choices": [1],
            "cpus": 1.0,
            "run": f"run {name}",
            "seconds_low": 300.0,
            "seconds_high": 450.0,
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
        self.use(job, every=every)
        if state == State.SUCCEEDED:
            job = self.ledger.end(job, state, "succeeded", "end", "succeeded", 0)
        elif state in (State.FAILED, State.LOST):
            lost = {"lost_seconds": 42.0, "lost_tokens": 123_456}
            job = self.ledger.end(job, state, str(state), "exit", "ValueError: it broke", 1, **lost)
        return job

    def write(self, job: Job, text: str) -> None:
        path = attempt_of(self.home, job.id, job.attempt).log
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(text)

    def use(self, job: Job, machines: Sequence[str] = ("here",), every: float = 5.0) -> None:
        """Leaves 240 samples, one `every` so many seconds."""
        now = self.ledger.now()
        for machine in machines:
            file = PointsFile(Path(f"{attempt_of(self.home, job.id, job.attempt).usage}-{machine}"))
            for part in range(240):
                wave = 1 + math.sin(part / 20)
                own = {"cpu": 6.0 * part, "memory": wave * 1e9, "read": 1e6 * part, "written": 2e6 * part}
                own |= {"gpu": 40 * wave, "gpu_memory": 8e9, "machine_gpu": 20 * wave, "machine_gpu_memory": 9e9}
                own |= {"machine_cpu": 30 * wave, "machine_memory": 8e9, "machine_read": 1e6 * part}
                own |= {"machine_written": 3e6 * part, "machine_free": 5e11, "machine_sent": 4e6 * part}
                file.add({"at": now - every * (240 - part), **own, "machine_received": 1e5 * part})

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
    """MLflow's REST interface and the endpoint, as far as pages ask them."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        asked = {key: values[0] for key, values in parse_qs(parts.query).items()}
        name = parts.path.removeprefix("/api/2.0/mlflow/")
        match name:
            case "registered-models/search":
                self._answer({"registered_models": [{**_model("demo-en-de"), "latest_versions": [_version("2")]}]})
            case "registered-models/get" if asked["name"] == "demo-en-de":
                self._answer({"registered_model": _model("demo-en-de")})
            case "model-versions/search":
                tags = getattr(self.server, "tags", TAGS)
                self._answer({"model_versions": [_version("1", tags), _version("2", tags)]})
            case "runs/get":
                self._answer({"run": {"info": {"experiment_id": "1"}}})
            case "artifacts/list":
                names = {None: ["samples.json", "attention.png", "alignment"], "alignment": ["alignment/maps.png"]}
                self._answer({"files": [{"path": name} for name in names[asked.get("path")]]})
            case "/get-artifact":
                self._send(ARTIFACTS[asked["path"]], 200, {"Content-Type": "application/octet-stream"})
            case "/status" if getattr(self.server, "away", False):
                self._answer({}, 503)
            case "/status":
                self._answer({"model": self.server.serves})  # type: ignore[attr-defined]  # as above
            case _:
                self._answer({"error_code": "RESOURCE_DOES_NOT_EXIST"}, 404)

    def _answer(self, found: Any, code: int = 200, **headers: str) -> None:
        self._send(json.dumps(found).encode(), code, {"Content-Type": "application/json", **headers})

    def _send(self, body: bytes, code: int, headers: Mapping[str, str]) -> None:
        self.send_response(code)
        for key, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def _model(name: str) -> dict[str, Any]:
    tags = [
        {"key": "history/2026-03-01T100000-000000Z-abc", "value": json.dumps(MOVE | {"reason": "BLEU 88.22 > 80.10"})}
    ]
    return {"name": name, "aliases": [{"alias": "champion", "version": "2"}], "tags": tags}


def _version(number: str, given: dict[str, str] = TAGS) -> dict[str, Any]:
    tags = [{"key": key, "value": value} for key, value in given.items()]
    return {"name": "demo-en-de", "version": number, "run_id": "f" * 32, "creation_timestamp": 1.77e12, "tags": tags}
