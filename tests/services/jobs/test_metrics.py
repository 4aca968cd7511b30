"""What /metrics of the job service says after jobs have run as real processes."""

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.service.verdict import Verdict
from dragoman.services.jobs.states import State
from tests.services.jobs.at_work import client
from tests.services.jobs.processes import words

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


def test_every_metric_says_what_happened(loop: Loop) -> None:
    capacity = loop.executor.capacity()
    with client(loop) as http:
        before = samples(http)
        assert before["dragoman_attempts_total"][of(cause="vanished")] == 0
        name = http.post("/v1/jobs", json={"verb": "train", "overrides": words(loop.home, "a", 3)}).json()["id"]
        loop._take()
        http.put("/v1/quotas/anna", json={"cpus": 4})
        loop.scheduler.run(capacity)
        loop.accounts.begin(loop.ledger.job(name))
        made_room = Verdict(State.WAITING, "yielded", "preemption", "made room")
        loop.accounts.close(loop.ledger.job(name), made_room)
        loop.scheduler.run(capacity)
        loop.accounts.begin(loop.ledger.job(name))
        http.post("/v1/jobs", json={"verb": "train", "overrides": words(loop.home, "b", 3), "priority": "high"})
        loop._take()
        found = samples(http)
    assert found["dragoman_jobs"][of(state="running", queue="normal")] == 1
    assert found["dragoman_jobs"][of(state="waiting", queue="high")] == 1
    assert sum(found["dragoman_jobs"].values()) == 2
    assert found["dragoman_job_wait_seconds_count"][of()] == 2
    assert found["dragoman_scheduler_pass_seconds_count"][of()] == 2
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
