"""What /metrics of the job service says after jobs have run as real processes."""

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.service.metrics import Metrics, Observer
from dragoman.services.jobs.states import State
from tests.services.jobs.at_work import client
from tests.services.jobs.processes import bring, words

# Starlette's client would rather have the next httpx.
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")


def samples(http: httpx.Client) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    """Name -> labels -> value."""
    answer = http.get("/metrics")
    assert answer.status_code == 200, answer.text
    found: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for family in text_string_to_metric_families(answer.text):
        for one in family.samples:
            found.setdefault(one.name, {})[frozenset(one.labels.items())] = one.value
    return found


def of(**labels: str) -> frozenset[tuple[str, str]]:
    return frozenset(labels.items())


def finish(ledger: Ledger, name: str, workers: int, cause: str, state: State) -> None:
    """An attempt of a waiting job, begun, running and ended."""
    bring(ledger, ledger.job(name), State.RUNNING, workers)
    outcome = {State.SUCCEEDED: "succeeded", State.WAITING: "yielded"}.get(state, "failed")
    ledger.end(ledger.job(name), state, outcome, cause, "as told")


def test_every_metric_says_what_happened(loop: Loop) -> None:
    with client(loop) as http:
        before = samples(http)
        assert before["dragoman_attempts_total"][of(cause="vanished")] == 0
        job = http.post("/v1/jobs", json={"verb": "train", "overrides": words(loop.home, "a", 3)}).json()
        http.post("/v1/jobs", json={"verb": "train", "overrides": words(loop.home, "b", 3), "priority": "high"})
        loop._take()
        http.put("/v1/quotas/anna", json={"cpus": 4})
        finish(loop.ledger, job["id"], 1, "preemption", State.WAITING)
        loop.scheduler.took(0.02)
        bring(loop.ledger, loop.ledger.job(job["id"]), State.RUNNING)
        found = samples(http)
    assert found["dragoman_jobs"][of(state="running", queue="normal")] == 1
    assert found["dragoman_jobs"][of(state="waiting", queue="high")] == 1
    assert sum(found["dragoman_jobs"].values()) == 2
    assert found["dragoman_job_wait_seconds_count"][of()] == 2
    assert found["dragoman_scheduler_pass_seconds_count"][of()] == 1
    assert found["dragoman_attempts_total"][of(cause="preemption")] == 1
    assert found["dragoman_recovery_seconds_count"][of(cause="preemption")] == 1
    assert found["dragoman_quota_used"][of(owner="anna", resource="cpu")] == 1
    assert found["dragoman_quota_used"][of(owner="anna", resource="gpu")] == 0
    assert found["dragoman_quota_limit"] == {of(owner="anna", resource="cpu"): 4}
    assert found["dragoman_cluster_up"][of()] == 1
    assert found["dragoman_cluster_capacity"][of(resource="cpu")] == 2
    assert (
        0 < found["dragoman_disk_free_bytes"][of(folder="home")] < found["dragoman_disk_size_bytes"][of(folder="home")]
    )
    assert any(("http_route", "/v1/jobs") in labels for labels in found["http_server_request_duration_seconds_count"])
    loop.trouble = "the cluster is away"
    with client(loop) as http:
        assert samples(http)["dragoman_cluster_up"][of()] == 0


def test_an_event_is_told_once_and_none_of_those_before_the_start(loop: Loop) -> None:
    ledger = loop.ledger
    jobs = [ledger.submit("anna", "train", []) for _ in range(3)]
    for job in jobs:
        bring(ledger, job, State.WAITING)
    finish(ledger, jobs[0].id, 1, "end", State.SUCCEEDED)
    metrics = Metrics()
    observer = Observer(ledger, metrics)
    finish(ledger, jobs[1].id, 1, "exit 1", State.FAILED)
    for _ in range(3):
        observer.look()
    finish(ledger, jobs[2].id, 1, "exit 1", State.FAILED)
    ledger.remove(ledger.job(jobs[2].id), "anna")
    observer.look()
    value = metrics.telemetry.registry.get_sample_value
    assert value("dragoman_attempts_total", {"cause": "end"}) == 0
    assert value("dragoman_attempts_total", {"cause": "exit 1"}) == 1
    assert value("dragoman_attempts_total", {"cause": "removed"}) == 1
    assert value("dragoman_job_wait_seconds_count") == 2
