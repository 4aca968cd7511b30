"""The dashboards over running services: a job service whose jobs are processes, an endpoint with real models, and
Debian's Prometheus that reads both as the composition has it read them."""

import contextlib
import json
import math
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from dragoman.model.ports import free_ports
from dragoman.model.settings import DecodeConfig
from dragoman.services.endpoint.app import create_app as create_endpoint
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.endpoint.metrics import Metrics
from dragoman.services.endpoint.opening import follow_models, run_batcher
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.http.parts import ServiceParts
from dragoman.services.jobs.up.app import create_app
from dragoman.services.settings import Limits, ServeConfig
from tests.services.jobs import processes
from tests.services.listening import serving

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
PATIENCE = 120.0  # seconds, on a busy machine
EVERY = 0.5  # seconds between two scrapes


@dataclass(frozen=True)
class Jobs:
    """The job service's port, a submitter's token and a viewer's."""

    port: int
    anna: str
    viewer: str


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    loop = processes.make_loop(f"sqlite:///{tmp_path}/ledger.db", tmp_path, cpus=3)
    access = loop.scheduler.access
    access.set_quota("anna", 3, 1, "root")
    roles = (("root", "admin"), ("anna", "submitter"), ("prometheus", "viewer"))
    _, anna, viewer = (access.issue(name, name, role, "root") for name, role in roles)
    loop.capacity = loop.executor.capacity()
    loop.start()
    with serving(create_app(ServiceParts(loop.ledger, access, loop, loop.config, loop.home, keys=True))) as port:
        yield Jobs(port, anna, viewer)
    loop.stop()
    processes.end_trees([process.pid for process in processes.PROCESSES])
    while processes.PROCESSES:
        processes.PROCESSES.pop().wait(20)
    loop.ledger.database.close()


@pytest.fixture
def endpoint(bundle: Path) -> Iterator[int]:
    metrics = Metrics()
    config = ServeConfig(bundle=str(bundle))
    with follow_models(config, DecodeConfig(), (), None, metrics) as models, run_batcher(config, metrics) as batcher:
        queue = InferenceQueue(batcher, models.current, models.trouble)
        metrics.show(queue, models, bundle)
        with serving(create_endpoint(Endpoint(models, queue, Limits(), metrics=metrics))) as port:
            yield port


@pytest.fixture
def prometheus(tmp_path: Path, jobs: Jobs, endpoint: int) -> Iterator[httpx.Client]:
    """With the composition's configuration and rules; other addresses, and in a hurry."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed (Debian: prometheus)")
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    config["global"] = dict.fromkeys(
        ("scrape_interval", "scrape_timeout", "evaluation_interval"), f"{EVERY * 1000:g}ms"
    )
    of_jobs, of_endpoint = config["scrape_configs"]
    (tmp_path / "token").write_text(jobs.viewer)
    of_jobs["authorization"]["credentials_file"] = str(tmp_path / "token")
    for one, its in ((of_jobs, jobs.port), (of_endpoint, endpoint)):
        one["static_configs"] = [{"targets": [f"127.0.0.1:{its}"]}]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    shutil.copy(DEPLOY / "prometheus" / "rules.yml", tmp_path)
    (own,) = free_ports(1)
    places = [f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/tsdb"]
    with (tmp_path / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [program, *places, f"--web.listen-address=127.0.0.1:{own}"],
            **{"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT},
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{own}/api/v1", timeout=PATIENCE) as client:
            yield client
    finally:
        process.terminate()
        process.wait(20)


def queries() -> list[tuple[str, str]]:
    """(where it stands, the query) of every dashboard."""
    found = []
    for path in sorted((DEPLOY / "grafana" / "dashboards").glob("*.json")):
        for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]:
            found += [(f"{path.stem}: {panel['title']}", target["expr"]) for target in panel["targets"]]
    return found


def test_every_panel_of_the_endpoint_names_metrics_that_it_has(endpoint: int) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{endpoint}", timeout=PATIENCE) as asker:
        asker.post("/translate", json={"q": "the dog", "source": "en", "target": "de"}).raise_for_status()
        text = asker.get("/metrics").text
    names = {re.split(r"[{ ]", line, maxsplit=1)[0] for line in text.splitlines() if not line.startswith("#")}
    asked = {
        name
        for place, query in queries()
        if place.startswith("endpoint")
        for name in re.findall(r"\b(?:dragoman|http|process)_\w+", re.sub(r'"[^"]*"|by \([^)]*\)', "", query))
    } - {"http_route"}
    assert len(asked) > 10 and asked <= names, asked - names


def draws(prometheus: httpx.Client, query: str, since: float) -> bool:
    """Whether a panel would draw something: a number, at any time since."""
    asked: dict[str, Any] = {"query": query.replace("$__rate_interval", "5s"), "start": since, "end": time.time()}
    answer = prometheus.get("/query_range", params={**asked, "step": EVERY}).json()
    assert answer["status"] == "success", (query, answer)
    return any(math.isfinite(float(value)) for one in answer["data"]["result"] for _, value in one["values"])


@pytest.mark.long
def test_a_real_prometheus_draws_every_panel_and_reads_every_rule(
    tmp_path: Path, jobs: Jobs, endpoint: int, prometheus: httpx.Client
) -> None:
    began, deadline = time.time(), time.monotonic() + PATIENCE
    up: dict[str, str] = {}
    while up != {"dragoman-jobs": "1", "dragoman-endpoint": "1"}:
        assert time.monotonic() < deadline, (up, (tmp_path / "prometheus.log").read_text()[-2000:])
        with contextlib.suppress(httpx.TransportError):
            answer = prometheus.get("/query", params={"query": "up"})
            if answer.is_success:  # it has read its own records
                up = {one["metric"]["job"]: one["value"][1] for one in answer.json()["data"]["result"]}
        time.sleep(0.05)
    missing = set(queries())
    assert len(missing) > 30 and not draws(prometheus, "dragoman_nothing", began)
    with (
        JobClient(f"http://127.0.0.1:{jobs.port}", jobs.anna) as client,
        httpx.Client(base_url=f"http://127.0.0.1:{endpoint}", timeout=PATIENCE) as asker,
    ):
        client.submit("train", processes.words(tmp_path, "badly", steps=7, code=1))
        long = client.submit("train", processes.words(tmp_path, "long", steps=10_000))["id"]
        while missing:  # things happen: it makes room and goes on, lines are translated
            assert time.monotonic() < deadline, missing
            if client.job(long)["state"] == "running":
                client.call("yield", id=long)
            asked = {"q": "the dog", "source": "en", "target": "de"}
            assert asker.post("/translate", json=asked).status_code == 200
            missing = {one for one in missing if not draws(prometheus, one[1], began)}
    groups = prometheus.get("/rules").json()["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) == 15 and {rule["health"] for rule in rules} == {"ok"}, rules
