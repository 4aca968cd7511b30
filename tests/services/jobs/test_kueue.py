"""The kueue executor against a fake Kubernetes API: what it makes, what it understands, how the service follows."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dragoman.model.errors import ServiceError
from dragoman.services.jobs.executors.base import Start
from dragoman.services.jobs.executors.kueue import KueueExecutor, quantity
from dragoman.services.jobs.ledger.access import Access, Person
from dragoman.services.jobs.ledger.database import Database
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.records import YIELDED, attempt_of
from dragoman.services.jobs.service.forecaster import Forecaster
from dragoman.services.jobs.service.intake import Intake
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.service.operations import Operations
from dragoman.services.jobs.settings import KueueConfig, ServiceConfig
from dragoman.services.jobs.states import State
from tests.services.jobs.fake_kubernetes import TOKEN, Cluster, closed, definition, serving
from tests.services.jobs.processes import StubPlanner, words

SCHEMAS = (("ray.io_rayjobs", "v1"), ("kueue.x-k8s.io_workloads", "v1beta2"))
ROOT = Person("root", "admin")
FULL = "couldn't assign flavors to pod set head: insufficient unused quota for cpu in flavor default, 3 more needed"


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    """KubeRay's and Kueue's own definitions."""
    found = {name: definition(*name) for name in SCHEMAS}
    if any(schema is None for schema in found.values()):
        pytest.skip("the operators' definitions (../shared/schemas) are not on this machine")
    return {name[0].partition("_")[2]: closed(schema) for name, schema in found.items()}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def executor(cluster: Cluster, tmp_path: Path) -> Iterator[KueueExecutor]:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    with serving(cluster) as address:
        config = KueueConfig(server=address, token_file=str(token), image="registry.example/dragoman-train:1")
        yield KueueExecutor(config, tmp_path / "home", {"MLFLOW_TRACKING_URI": "http://mlflow:5000"}, 120.0)


def start(**values: Any) -> Start:
    plain = {"job": "jab12-7", "number": 2, "verb": "train", "words": ("name=a b", "model=rnn"), "owner": "anna"}
    size = {"priority": 10, "workers": 3, "cpus": 2.0, "gpus": 1.0, "spreads": True}
    return Start(**{**plain, **size, **values})


@pytest.mark.parametrize(("spreads", "gpus"), [(True, 1.0), (True, 0.0), (False, 0.0)])
def test_what_is_made_is_a_rayjob_by_kuberays_own_definition(
    spreads: bool, gpus: float, cluster: Cluster, executor: KueueExecutor, schemas: dict[str, Any]
) -> None:
    cluster.schema = schemas["rayjobs"]
    executor.submit(start(spreads=spreads, gpus=gpus, workers=3 if spreads else 1))
    found = cluster.jobs["jab12-7-a2"]
    labels, spec = found["metadata"]["labels"], found["spec"]
    assert labels["kueue.x-k8s.io/queue-name"] == "dragoman"
    assert labels["kueue.x-k8s.io/priority-class"] == "dragoman-high"
    assert spec["suspend"] is True and spec["backoffLimit"] == 0 and spec["shutdownAfterJobFinishes"] is True
    runner = f"exec python -m dragoman.services.jobs.runner {executor.home} jab12-7 2 train 'name=a b' model=rnn"
    assert spec["entrypoint"] == runner + (" cluster.address=auto" if spreads else "")
    groups = spec["rayClusterSpec"].get("workerGroupSpecs", [])
    assert [group["replicas"] for group in groups] == ([3] if spreads else [])
    pods = [spec["rayClusterSpec"]["headGroupSpec"]["template"], *(group["template"] for group in groups)]
    for pod in pods:
        (container,) = pod["spec"]["containers"]
        variables = {one["name"]: one["value"] for one in container["env"]}
        assert variables["DRAGOMAN_HOME"] == str(executor.home) == container["volumeMounts"][0]["mountPath"]
        assert variables["DRAGOMAN_JOB"] == "jab12-7"
        assert pod["spec"]["terminationGracePeriodSeconds"] >= 120  # a checkpoint comes first
    last = pods[-1]["spec"]["containers"][0]["resources"]["requests"]
    assert last == {"cpu": "2", "memory": "8Gi"} | ({"nvidia.com/gpu": "1"} if gpus else {})
    assert TOKEN not in json.dumps(found)


def test_the_same_attempt_again_is_done_already_and_what_is_refused_is_said(
    cluster: Cluster, executor: KueueExecutor, schemas: dict[str, Any]
) -> None:
    cluster.schema = schemas["rayjobs"]
    for _ in range(2):
        executor.submit(start())
    assert cluster.made == ["jab12-7-a2"]
    executor.config.keep_seconds = "soon"  # type: ignore[assignment]  # to be refused by the definition
    with pytest.raises(ServiceError, match=r"refuses POST .*ttlSecondsAfterFinished"):
        executor.submit(start(number=3))
    cluster.away = True
    with pytest.raises(ServiceError, match="away"):
        executor.observe([start()])
    executor.api.token_file.write_text("another's")
    cluster.away = False
    with pytest.raises(ServiceError, match="Unauthorized") as caught:
        executor.capacity()
    assert "another's" not in str(caught.value)


Step = tuple[str, Callable[[Cluster], None], tuple[str, int | None, str]]
NAME = "jab12-7-a2"
REPLAY: list[Step] = [
    ("made", lambda _: None, ("pending", None, "stands in Kueue's queue")),
    (
        "no quota",
        lambda c: c.say(NAME, "QuotaReserved", "False", "Pending", FULL),
        ("pending", None, f"Kueue: {FULL}"),
    ),
    (
        "quota",
        lambda c: (
            c.say(NAME, "QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue main"),
            c.say(NAME, "Admitted", "True", "Admitted", "The workload is admitted"),
        ),
        ("pending", None, "its pods start"),
    ),
    (
        "pods",
        lambda c: c.say(NAME, "PodsReady", "False", "WaitForStart", "2 of 4 pods are ready"),
        ("pending", None, "2 of 4"),
    ),
    (
        "runs",
        lambda c: (
            c.say(NAME, "PodsReady", "True", "Started", "All pods reached readiness"),
            c.status(NAME, jobStatus="RUNNING", jobDeploymentStatus="Running"),
        ),
        ("running", None, ""),
    ),
    (
        "evicted",
        lambda c: (
            c.say(NAME, "Evicted", "True", "Preempted", "Preempted to accommodate a workload of higher priority"),
            c.say(NAME, "QuotaReserved", "False", "Pending", "Preempted to accommodate a workload of higher priority"),
            c.status(NAME, jobStatus="", jobDeploymentStatus="Suspended"),
        ),
        ("pending", None, "Kueue: Preempted to accommodate"),
    ),
    (
        "failed",
        lambda c: c.status(NAME, jobStatus="FAILED", jobDeploymentStatus="Failed", message="the pod was OOMKilled"),
        ("ended", None, "OOMKilled"),
    ),
]


def test_the_conditions_that_kueue_sets_are_what_is_observed(
    cluster: Cluster, executor: KueueExecutor, schemas: dict[str, Any]
) -> None:
    assert executor.observe([start()])[NAME].state == "absent"
    executor.submit(start())
    for name, happens, (state, code, message) in REPLAY:
        happens(cluster)
        conditions = cluster.workloads[NAME]["status"]["conditions"]
        wanted = schemas["workloads"]["properties"]["status"]["properties"]["conditions"]
        jsonschema.Draft202012Validator(wanted).validate(conditions)
        found = executor.observe([start()])[NAME]
        assert (found.state, found.code) == (state, code), name
        assert message in found.message, name
    executor.kill(start())
    executor.kill(start())
    assert executor.observe([start()])[NAME].state == "absent"


def test_plans_are_held_against_the_quotas_of_all_queues(cluster: Cluster, executor: KueueExecutor) -> None:
    def queue(cpu: object, gpu: object) -> dict[str, Any]:
        resources = [{"name": "cpu", "nominalQuota": cpu}, {"name": "nvidia.com/gpu", "nominalQuota": gpu}]
        return {"spec": {"resourceGroups": [{"flavors": [{"name": "default", "resources": resources}]}]}}

    cluster.queues = [queue("7500m", "0"), queue(8, "4")]
    (node,) = executor.capacity().nodes
    assert (node.cpus, node.gpus) == (15.5, 4)
    assert [quantity(text) for text in ("500m", "2k", "1.5", "what")] == [0.5, 2000, 1.5, 0]


def test_the_service_hands_everything_over_mirrors_what_kueue_says_and_goes_on_after_an_eviction(
    cluster: Cluster, executor: KueueExecutor, tmp_path: Path
) -> None:
    cluster.queues = [
        {"spec": {"resourceGroups": [{"flavors": [{"resources": [{"name": "cpu", "nominalQuota": 1}]}]}]}}
    ]
    home = executor.home
    ledger = Ledger(Database(f"sqlite:///{tmp_path}/ledger.db"))
    intake = Intake(ledger, StubPlanner(home), "kueue")  # type: ignore[arg-type]  # as far as it is asked
    loop = Loop(ledger, Access(ledger), executor, intake, ServiceConfig(executor="kueue"), home)
    operations = Operations(ledger, loop, loop.config, Forecaster(loop))
    jobs = [ledger.submit("anna", "train", words(home, name, 5)) for name in ("a", "b", "c")]

    def turn() -> list[str]:
        loop._take()
        loop.look()
        return [ledger.job(job.id).state for job in jobs]

    def id_of(job: Job, number: int = 1) -> str:
        return f"{job.id}-a{number}"

    turn()
    assert turn() == [State.STARTING] * 3  # one CPU for three jobs: whose turn it is Kueue says
    assert cluster.made == [id_of(job) for job in jobs]
    cluster.say(id_of(jobs[1]), "QuotaReserved", "False", "Pending", FULL)
    turn()
    assert operations.why(ROOT, jobs[1].id).text == f"Kueue: {FULL}"

    def run(job: Job, number: int) -> int:
        """As the pod would: the attempt is taken, and its lock held."""
        cluster.status(id_of(job, number), jobStatus="RUNNING", jobDeploymentStatus="Running")
        descriptor = attempt_of(home, job.id, number).hold()
        assert descriptor is not None
        return descriptor

    first = run(jobs[0], 1)
    assert turn()[0] == State.RUNNING
    # evicted: the pod gets SIGTERM, makes a checkpoint and says so; Kueue would start the same RayJob again
    attempt_of(home, jobs[0].id, 1).write(code=143)
    os.close(first)
    cluster.say(id_of(jobs[0]), "Evicted", "True", "Preempted", "Preempted to accommodate another")
    turn()
    assert turn()[0] == State.STARTING
    assert id_of(jobs[0]) not in cluster.jobs and id_of(jobs[0], 2) in cluster.jobs
    second = run(jobs[0], 2)
    turn()
    attempt_of(home, jobs[0].id, 2).write(code=0)
    os.close(second)
    assert turn()[0] == State.SUCCEEDED
    assert [one.outcome for one in ledger.attempts(jobs[0].id)] == ["yielded", "succeeded"]

    operations.stop(ROOT, jobs[1].id)  # it waits in Kueue's queue: it is taken out of it
    turn()
    assert turn()[1] == State.STOPPED
    assert id_of(jobs[1]) not in cluster.jobs

    third = run(jobs[2], 1)
    assert turn()[2] == State.RUNNING
    operations.make_room(ROOT, jobs[2].id)
    turn()
    assert attempt_of(home, jobs[2].id, 1).asked() == "yield"
    attempt_of(home, jobs[2].id, 1).write(code=YIELDED)
    os.close(third)
    turn()
    assert turn()[2] == State.STARTING and id_of(jobs[2], 2) in cluster.jobs
    cluster.away = True  # silence is not death
    turn()
    assert turn()[2] == State.STARTING
    ledger.database.close()
