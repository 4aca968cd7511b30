"""What the service makes of a plan: time, the hour that is asked for, GPUs, what the cluster can never hold."""

import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_type_hints

import pytest
from sqlalchemy import insert
from sqlalchemy.orm import Mapped

from dragoman.model.errors import ServiceError, UserError
from dragoman.services.jobs import views
from dragoman.services.jobs.executors.ray import Head, RayExecutor
from dragoman.services.jobs.ledger import tables
from dragoman.services.jobs.ledger.database import Database
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.ledger.tables import Measurement
from dragoman.services.jobs.planning.plan import make_plan
from dragoman.services.jobs.scheduling.decide import decide_queue
from dragoman.services.jobs.scheduling.entries import Capacity
from dragoman.services.jobs.scheduling.entries import Start as Decision
from dragoman.services.jobs.scheduling.queue import Queue
from dragoman.services.jobs.scheduling.room import Node
from dragoman.services.jobs.service.attempts import describe_attempt
from dragoman.services.jobs.service.intake import Intake
from dragoman.services.jobs.service.scheduler import entry
from dragoman.services.jobs.states import State
from tests.services.jobs.processes import bring

NOW = 1000.0
SMALL = Capacity((Node("a", 4),))
GPUS = Capacity((Node("a", 8, 2), Node("b", 8, 2)))


class Planner:
    """The real plan, in this process, of each words once."""

    def __init__(self, home: Path) -> None:
        self.roots = [home]
        self.known: dict[tuple[object, ...], str] = {}

    def plan(
        self, verb: str, words: Sequence[str], gpus: float = 0.0, early: bool = False, owner: str = ""
    ) -> dict[str, Any]:
        key = (verb, *words, gpus)
        if key not in self.known:
            self.known[key] = json.dumps(make_plan(verb, words, self.roots, gpus, True))  # shards are not in sight
        plan: dict[str, Any] = json.loads(self.known[key])
        return plan


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planner]:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAGOMAN_HOME", str(home))
        yield Planner(home)


@pytest.fixture
def intake(tmp_path: Path, planner: Planner) -> Iterator[Intake]:
    ledger = Ledger(Database(f"sqlite:///{tmp_path}/ledger.db"), lambda: NOW)
    yield Intake(ledger, planner, "here")  # type: ignore[arg-type]  # as far as it is asked
    ledger.database.close()


TRAIN = ["corpus=everyday", "model=transformer_tiny", "train.max_steps=1000", "loader.lanes=4"]


def measure(intake: Intake, workers: int, pace: float, around: float = 60.0) -> None:
    """A job of the same shape that ended: `pace` seconds a step."""
    shape = intake.plan("anna", "train", TRAIN, SMALL)["shape"]
    row = {"at": NOW, "job": "j", "cluster": "here", "shape": shape, "verb": "train", "steps": 500, "flops": 1e9}
    with intake.ledger.database.write() as session:
        took = {"workers": workers, "training": 500 * pace, "around": around, "predicted": None}
        session.execute(insert(Measurement).values(**row, **took))


def test_the_hour_picks_the_numbers_of_workers_that_meet_it_or_is_refused_with_numbers(intake: Intake) -> None:
    for workers, pace in ((1, 4.0), (2, 2.0), (4, 1.0)):
        measure(intake, workers, pace)

    def choices(seconds: float, *words: str) -> list[int]:
        found: list[int] = intake.plan("anna", "train", [*TRAIN, *words], SMALL, deadline=NOW + seconds)["choices"]
        return found

    assert choices(6000) == [1, 2, 4]
    assert choices(3000) == [2, 4]
    assert choices(1700) == [4]  # 1,000 steps of a second, what is around them, and the width of one measurement
    assert choices(3000, "cluster.workers=1..2") == [2]
    assert choices(6000, "cluster.workers=1") == [1]
    with pytest.raises(UserError, match=r"10 min are left; it would take: 1 worker .* 4 workers 1\d to 2\d min"):
        choices(600)
    small = Capacity((Node("a", 2),))
    assert intake.plan("anna", "train", TRAIN, small, deadline=NOW + 6000)["choices"] == [1, 2]
    plan = intake.plan("anna", "train", TRAIN, SMALL, deadline=NOW + 6000)
    assert plan["lanes"] == 4 and plan["elastic"]  # it trains the same with any of them


def test_a_job_with_an_hour_is_started_with_one_of_the_numbers(intake: Intake) -> None:
    for workers, pace in ((1, 4.0), (2, 2.0), (4, 1.0)):
        measure(intake, workers, pace)
    job = intake.ledger.submit("anna", "train", TRAIN, deadline=NOW + 3000)
    late = intake.ledger.submit("anna", "train", TRAIN, deadline=NOW + 60)
    intake.take(SMALL)
    job = intake.ledger.job(job.id)
    assert (job.state, job.choices) == (State.WAITING, [2, 4])
    assert intake.ledger.job(late.id).state == State.FAILED
    assert "1 min are left" in intake.ledger.job(late.id).reason
    (decision,) = decide_queue(Queue([entry(job, {})]), {}, Capacity((Node("a", 3),)), NOW).decisions
    assert isinstance(decision, Decision) and decision.workers == 2
    bring(intake.ledger, job, State.STARTING, 2)
    assert "cluster.workers=2" in describe_attempt(intake.ledger.job(job.id)).words


def test_every_job_that_ends_makes_the_next_prediction_narrower(intake: Intake) -> None:
    def expected() -> tuple[float, float, str]:
        found = intake.plan("anna", "train", [*TRAIN, "cluster.workers=1"], SMALL)["seconds"]["1"]
        return found["expected"], found["high"] / found["low"], found["basis"]

    _, first, basis = expected()
    assert basis == "nothing measured here yet"
    measure(intake, 2, 2.0)
    alike, second, _ = expected()
    measure(intake, 1, 4.0)
    same, third, basis = expected()
    assert first > second > third and basis == "1 like it"
    assert same == pytest.approx(4060, rel=0.15) and 2060 < alike < 4500


def test_what_is_beside_the_steps_is_taken_from_jobs_like_it_alone(intake: Intake) -> None:
    with intake.ledger.database.write() as session:
        for _ in range(8):  # others, whose evaluation is short
            row = {"at": NOW, "job": "o", "cluster": "here", "shape": "other", "verb": "train", "steps": 100}
            row |= {"flops": 1e9, "workers": 1, "training": 50.0, "around": 5.0, "predicted": None}
            session.execute(insert(Measurement).values(**row))
    measure(intake, 1, 1.0, around=90.0)
    plan = intake.plan("anna", "train", [*TRAIN, "cluster.workers=1"], SMALL)
    assert plan["seconds"]["1"]["expected"] == pytest.approx(1090, rel=0.1)


def test_jobs_without_steps_are_alike_where_all_that_takes_time_is(planner: Planner) -> None:
    def shape(*words: str) -> object:
        return planner.plan(*words[:1], words[1:])["shape"]  # type: ignore[arg-type]  # the verb

    words = ("shard", "corpus=everyday")
    assert shape(*words) == shape(*words, "model=rnnenc", "name=other") != shape(*words, "tokenizer.vocabulary=500")
    vectors = ("train", "model=skipgram", "corpus=everyday")
    assert shape(*vectors) == shape(*vectors, "name=other") != shape(*vectors, "vectors.epochs=9")


@pytest.mark.parametrize("words", [["cluster.device=cuda"], []])
def test_a_training_takes_gpus_where_the_cluster_has_them(words: list[str], intake: Intake) -> None:
    plan = intake.plan("anna", "train", [*TRAIN, *words, "cluster.workers=1..4"], GPUS)
    assert (plan["gpus"], plan["choices"]) == (1.0, [1, 2, 4])
    assert "cluster.device=cuda" in plan["words"]
    assert plan["flops"] == intake.plan("anna", "train", TRAIN, SMALL)["flops"]
    job = intake.ledger.submit("anna", "train", [*TRAIN, *words, "cluster.workers=1..4"])
    intake.take(GPUS)
    one = entry(intake.ledger.job(job.id), {})
    (decision,) = decide_queue(Queue([one]), {}, GPUS, NOW).decisions
    assert isinstance(decision, Decision) and decision.workers == 4
    (fewer,) = decide_queue(Queue([one]), {}, Capacity((Node("a", 8, 2), Node("b", 8, 1))), NOW).decisions
    assert isinstance(fewer, Decision) and fewer.workers == 2  # three is no number of workers for four lanes


def test_gpus_that_a_cluster_has_not_are_refused_with_numbers_and_auto_does_without(intake: Intake) -> None:
    with pytest.raises(UserError, match=r"cluster.workers=2: needs 2 CPUs and 2 GPUs; the cluster has 4 CPUs and 0"):
        intake.plan("anna", "train", [*TRAIN, "cluster.device=cuda", "cluster.workers=2"], SMALL)
    with pytest.raises(UserError, match="and 6 GPUs; the cluster has 16 CPUs and 4 GPUs"):
        lanes = "loader.lanes=6"
        intake.plan("anna", "train", [*TRAIN[:2], lanes, "cluster.device=cuda", "cluster.workers=6"], GPUS)
    job = intake.ledger.submit("anna", "train", [*TRAIN, "cluster.device=cuda", "cluster.workers=2"])
    intake.take(SMALL)  # a submitted job waits for nodes, which may be away
    assert (intake.ledger.job(job.id).state, intake.ledger.job(job.id).choices) == (State.WAITING, [2])
    assert intake.plan("anna", "train", TRAIN, SMALL)["gpus"] == 0.0
    assert intake.plan("anna", "shard", ["corpus=everyday"], GPUS)["gpus"] == 0.0


def ray_executor(home: Path, monkeypatch: pytest.MonkeyPatch, **methods: Any) -> RayExecutor:
    """The executor of a head whose client has these methods."""
    head = Head("http://127.0.0.1:1", token_file=str(home / "token"))
    executor = RayExecutor(head, home, 20, "python", {})
    monkeypatch.setattr(executor, "_client", lambda: nullcontext(SimpleNamespace(**methods)))
    return executor


def test_ray_is_asked_for_gpus_by_the_workers_and_for_a_slice_of_a_cpu_by_the_driver(
    tmp_path: Path, intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = intake.ledger.submit("anna", "train", [*TRAIN, "cluster.workers=1..4"])
    intake.take(GPUS)
    bring(intake.ledger, intake.ledger.job(job.id), State.STARTING, 2)
    asked: list[dict[str, Any]] = []
    executor = ray_executor(tmp_path, monkeypatch, submit_job=lambda **more: asked.append(more))
    executor.submit(describe_attempt(intake.ledger.job(job.id)))
    assert (asked[0]["entrypoint_num_cpus"], asked[0]["entrypoint_num_gpus"]) == (1 / 20, 0)
    assert re.search(r"cluster\.device=cuda .*cluster\.address=auto", asked[0]["entrypoint"])


def test_a_job_is_sent_as_the_ledger_has_it() -> None:
    stored = get_type_hints(tables.Job)
    sent = get_type_hints(views.JobHistory)
    del sent["why"]
    for name, kind in sent.items():
        assert stored[name] == Mapped[str if kind is State else kind], name  # type: ignore[misc]


@pytest.mark.parametrize("told", [True, False])
def test_a_machine_bears_its_host_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: bool) -> None:
    def node(number: int, host: str) -> SimpleNamespace:
        at = {"node_id": f"{number:056x}", "node_ip": f"10.0.0.{number}", "node_name": f"10.0.0.{number}"}
        more = {"state": "ALIVE", "is_head_node": number == 1, "resources_total": {"CPU": 4.0}}
        return SimpleNamespace(host=host, **at, **more)

    nodes = [node(1, "head"), node(2, "worker"), node(3, "worker")]
    asked = list[str]()

    def ask(_head: Head, _client: object, path: str) -> dict[str, Any]:
        asked.append(path)
        if not told:
            raise OSError("500")
        found = [{"hostname": one.host, "raylet": {"nodeId": one.node_id}} for one in nodes]
        return {"data": {"summary": found}}

    executor = ray_executor(tmp_path, monkeypatch)
    monkeypatch.setattr(Head, "nodes", lambda *_: nodes)
    monkeypatch.setattr(Head, "ask", ask)
    names = [one.name for one in executor.capacity().nodes]
    assert names == (["head", "worker (000002)", "worker (000003)"] if told else ["10.0.0.1", "10.0.0.2", "10.0.0.3"])
    assert executor.capacity().nodes[0].cpus == 3.0  # one of the head is kept
    assert len(asked) == (1 if told else 2)  # no node is new


def test_a_head_that_cannot_say_what_it_has_is_a_cluster_that_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray.util.state
    from ray.util.state.exception import ServerUnavailable

    class State:
        def __init__(self, address: str, headers: dict[str, str]) -> None:
            assert address == "http://127.0.0.1:1" and headers["Authorization"] == "Bearer secret"

        def list(self, *_: object, **__: object) -> None:
            raise ServerUnavailable("no API server")

    (tmp_path / "token").write_text("secret")
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    executor = ray_executor(tmp_path, monkeypatch, get_address=lambda: "http://127.0.0.1:1")
    monkeypatch.setattr(ray.util.state, "StateApiClient", State)
    with pytest.raises(ServiceError, match=r"127\.0\.0\.1:1 does not say what it has \(no API server\)"):
        executor.capacity()


def test_a_thousand_submissions_of_one_owner_do_not_keep_anothers_from_being_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.services.jobs.service.intake.BESIDE", 2.0)  # two of ben's plans do not end
    over = threading.Event()

    class Slow:
        roots = (str(tmp_path),)

        def plan(self, verb: str, words: Sequence[str], gpus: float, early: bool, owner: str) -> dict[str, Any]:
            if owner == "ben":
                over.wait(60)
            raise UserError(f"{owner}'s turn")

    ledger = Ledger(Database(f"sqlite:///{tmp_path}/ledger.db"), lambda: NOW)
    intake = Intake(ledger, Slow(), "here")  # type: ignore[arg-type]
    try:
        for _ in range(1001):
            ledger.submit("ben", "doctor", [])
        job = ledger.submit("anna", "doctor", [])
        assert intake.take(SMALL) == 1
        assert ledger.job(job.id).reason == "anna's turn"
    finally:
        over.set()
        intake._pool.shutdown(cancel_futures=True)
        ledger.database.close()
