"""The service's part of a plan: time, GPUs, refusal of what the cluster can never hold."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import insert

from dragoman.model.errors import ServiceError, UserError
from dragoman.services.jobs.executor import Head, RayExecutor
from dragoman.services.jobs.ledger.database import Database, Measurement
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.planning.plan import make_plan
from dragoman.services.jobs.scheduling.decide import decide
from dragoman.services.jobs.scheduling.entries import Capacity
from dragoman.services.jobs.scheduling.entries import Start as Decision
from dragoman.services.jobs.scheduling.room import Node
from dragoman.services.jobs.service.attempts import describe_attempt
from dragoman.services.jobs.service.intake import Intake
from dragoman.services.jobs.service.plans import Request, check_room
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
        self, verb: str, words: Sequence[str], gpus: float = 0.0, _early: bool = False, owner: str = "", *_: object
    ) -> dict[str, Any]:
        key = (verb, *words, gpus, owner)
        if key not in self.known:
            self.known[key] = json.dumps(
                make_plan(verb, words, self.roots, gpus, True, owner=owner)
            )  # shards are not in sight
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


def plan(intake: Intake, verb: str, words: Sequence[str], capacity: Capacity = SMALL) -> dict[str, Any]:
    return intake.plans.make(Request("anna", verb, words), capacity)


def measure(intake: Intake, workers: int, pace: float, around: float = 60.0) -> None:
    """A job of the same shape that ended: `pace` seconds a step."""
    shape = plan(intake, "train", TRAIN)["shape"]
    row = {"at": NOW, "job": "j", "cluster": "here", "shape": shape, "verb": "train", "steps": 500, "flops": 1e9}
    with intake.ledger.database.write() as session:
        took = {"workers": workers, "training": 500 * pace, "around": around}
        session.execute(insert(Measurement).values(**row, **took))


def test_the_time_of_a_training_is_that_of_the_last_speed_seen(intake: Intake) -> None:
    def seconds(*words: str) -> Any:
        return plan(intake, "train", [*TRAIN, *words])["seconds"]

    assert seconds("cluster.workers=1") == {}  # nobody knows
    measure(intake, 2, 2.0)
    assert seconds("cluster.workers=1") == {"1": 1000 * 2.0 * 2 + 60.0}
    assert seconds("cluster.workers=1..4") == {"1": 4060.0, "2": 2060.0, "4": 1060.0}
    measure(intake, 1, 3.0, around=10.0)
    assert seconds("cluster.workers=1..2") == {"1": 3010.0, "2": 2060.0}  # of as many workers, where there is one
    bigger = plan(intake, "train", [*TRAIN, "loader.lanes=8", "cluster.workers=1"])
    operations = bigger["flops"] / 1000 / 1e9  # beside those of the newest training
    assert bigger["seconds"]["1"] == pytest.approx(1000 * 3.0 * operations + 10.0)


def test_a_planned_job_has_its_time_and_what_is_left_of_it(intake: Intake) -> None:
    measure(intake, 1, 4.0)
    job = intake.ledger.submit("anna", "train", [*TRAIN, "cluster.workers=1"])
    intake.take(SMALL)
    job = intake.ledger.job(job.id)
    assert (job.state, job.seconds) == (State.WAITING, 4060.0)
    assert intake.seconds_left(job, 900) == 460.0


def test_an_elastic_job_is_started_with_one_of_the_numbers(intake: Intake) -> None:
    job = intake.ledger.submit("anna", "train", [*TRAIN, "cluster.workers=2..4"])
    intake.take(SMALL)
    job = intake.ledger.job(job.id)
    assert job.choices == [2, 4]
    (decision,) = decide([entry(job, {})], Capacity((Node("a", 3),)), NOW).decisions
    assert isinstance(decision, Decision) and decision.workers == 2
    bring(intake.ledger, job, State.STARTING, 2)
    assert "cluster.workers=2" in describe_attempt(intake.ledger.job(job.id)).words


def test_jobs_without_steps_are_alike_where_all_that_takes_time_is(planner: Planner) -> None:
    def shape(*words: str) -> object:
        return planner.plan(*words[:1], words[1:])["shape"]  # type: ignore[arg-type]  # the verb

    words = ("shard", "corpus=everyday")
    assert shape(*words) == shape(*words, "model=rnnenc", "name=other") != shape(*words, "tokenizer.vocabulary=500")
    vectors = ("train", "model=skipgram", "corpus=everyday")
    assert shape(*vectors) == shape(*vectors, "name=other") != shape(*vectors, "vectors.epochs=9")


@pytest.mark.parametrize("words", [["cluster.device=cuda"], []])
def test_a_training_takes_gpus_where_the_cluster_has_them(words: list[str], intake: Intake) -> None:
    made = plan(intake, "train", [*TRAIN, *words, "cluster.workers=1..4"], GPUS)
    assert (made["gpus"], made["choices"]) == (1.0, [1, 2, 4])
    assert "cluster.device=cuda" in made["words"]
    assert made["flops"] == plan(intake, "train", TRAIN)["flops"]
    job = intake.ledger.submit("anna", "train", [*TRAIN, *words, "cluster.workers=1..4"])
    intake.take(GPUS)
    one = entry(intake.ledger.job(job.id), {})
    (decision,) = decide([one], GPUS, NOW).decisions
    assert isinstance(decision, Decision) and decision.workers == 4
    (fewer,) = decide([one], Capacity((Node("a", 8, 2), Node("b", 8, 1))), NOW).decisions
    assert isinstance(fewer, Decision) and fewer.workers == 2  # three is no number of workers for four lanes


def test_gpus_that_a_cluster_has_not_are_refused_with_numbers_and_auto_does_without(intake: Intake) -> None:
    with pytest.raises(UserError, match=r"cluster.workers=2: needs 2 CPUs and 2 GPUs; the cluster has 4 CPUs and 0"):
        check_room(plan(intake, "train", [*TRAIN, "cluster.device=cuda", "cluster.workers=2"]), SMALL)
    with pytest.raises(UserError, match="and 6 GPUs; the cluster has 16 CPUs and 4 GPUs"):
        lanes = "loader.lanes=6"
        check_room(plan(intake, "train", [*TRAIN[:2], lanes, "cluster.device=cuda", "cluster.workers=6"], GPUS), GPUS)
    job = intake.ledger.submit("anna", "train", [*TRAIN, "cluster.device=cuda", "cluster.workers=2"])
    intake.take(SMALL)  # a submitted job waits for nodes, which may be away
    assert (intake.ledger.job(job.id).state, intake.ledger.job(job.id).choices) == (State.WAITING, [2])
    assert plan(intake, "train", TRAIN)["gpus"] == 0.0
    assert plan(intake, "shard", ["corpus=everyday"], GPUS)["gpus"] == 0.0


def ray_executor(
    home: Path, monkeypatch: pytest.MonkeyPatch, answer: Callable[[str, Any], object] = lambda *_: {}
) -> RayExecutor:
    """The executor of a head that answers so to a path and what comes with it."""
    executor = RayExecutor(Head("http://127.0.0.1:1", token_file=str(home / "token")), home, 20, "python", {})

    def ask(_method: str, path: str, content: Any = None) -> httpx.Response:
        return httpx.Response(200, json=answer(path, content))

    monkeypatch.setattr(executor, "_asking", lambda: nullcontext(ask))
    return executor


def test_ray_is_asked_for_gpus_by_the_workers_and_for_a_slice_of_a_cpu_by_the_driver(
    tmp_path: Path, intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = intake.ledger.submit("anna", "train", [*TRAIN, "cluster.workers=1..4"])
    intake.take(GPUS)
    bring(intake.ledger, intake.ledger.job(job.id), State.STARTING, 2)
    asked: list[dict[str, Any]] = []
    executor = ray_executor(tmp_path, monkeypatch, lambda _, content: asked.append(content))
    executor.submit(describe_attempt(intake.ledger.job(job.id)))
    assert (asked[0]["entrypoint_num_cpus"], asked[0]["entrypoint_num_gpus"]) == (1 / 20, 0)
    assert re.search(r"cluster\.device=cuda .*cluster\.address=auto", asked[0]["entrypoint"])


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
    executor = ray_executor(tmp_path, monkeypatch)
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

        def plan(self, verb: str, words: Sequence[str], gpus: float, early: bool, owner: str, _: object) -> None:
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
