"""`service.keep`: which ended jobs are deleted, what goes with them, and what always stays."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.services.jobs.client.admin import retention as verb
from dragoman.services.jobs.client.settings import JobsConfig
from dragoman.services.jobs.ledger.database import Database
from dragoman.services.jobs.ledger.ledger import Ledger, UnknownJobError
from dragoman.services.jobs.ledger.places import Places
from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.service import retention
from dragoman.services.jobs.service.metrics import Metrics
from dragoman.services.jobs.service.retention import DAY, STEP, Retention, summary
from dragoman.services.jobs.settings import KeepConfig
from dragoman.services.jobs.states import State
from tests.services.jobs.at_work import client
from tests.services.jobs.processes import make_loop
from tests.services.jobs.test_access import service

pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")
NOW = 1_800_000_000.0
ALL = KeepConfig(succeeded=30.0, failed=10.0, stopped=10.0, newest=0)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PAUSE", 0.0)


class World:
    """A ledger whose clock stands, and a home with what its jobs leave."""

    def __init__(self, home: Path) -> None:
        self.home = home.resolve()
        self.at = NOW
        self.ledger = Ledger(Database(f"sqlite:///{home}/service/ledger.db"), lambda: self.at)

    def job(self, name: str, days: float, state: State | None = State.SUCCEEDED, **more: object) -> Job:
        """A training that ended so many days ago, with its log and its run; `state` None: it waits."""
        self.at = NOW - days * DAY
        run = self.home / "runs" / name
        run.mkdir(parents=True, exist_ok=True)
        (run / "run.json").write_text("{}")
        (run / "weights").write_bytes(b"x" * 1000)
        place = {"path": str(run), "use": "write", "key": "name", "value": name}
        owner = str(more.pop("owner", "anna"))
        job = self.ledger.submit(owner, "train", [f"name={name}"], **more)  # type: ignore[arg-type]
        plan = {"run_dir": str(run), "places": [place]}
        job = self.ledger.change(job, State.PLANNED, "planner", "", plan=plan, run=f"run {name}")
        with self.ledger.database.write() as session:
            Places(self.ledger).claim(session, job, plan["places"])  # type: ignore[arg-type]
        if state is None:
            job = self.ledger.change(job, State.WAITING, "planner", "")
        else:
            for step in (State.WAITING, State.STARTING, state):
                job = self.ledger.change(job, step, "service", "")
        log = self.home / "jobs" / job.id / "a1.log"
        log.parent.mkdir(parents=True)
        log.write_text("said\n")
        self.at = NOW
        return job

    def look(self, config: KeepConfig = ALL, metrics: Metrics | None = None) -> int:
        return Retention(self.ledger, config, self.home, metrics).look()

    def there(self, job: Job) -> tuple[bool, bool, bool]:
        """Returns True for its row, its log and its run if they are there."""
        try:
            self.ledger.job(job.id)
            row = True
        except UnknownJobError:
            row = False
        run = self.home / "runs" / job.run.removeprefix("run ")
        return row, (self.home / "jobs" / job.id).exists(), run.exists()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    one = World(tmp_path)
    yield one
    one.ledger.database.close()


def test_each_state_has_its_age(world: World) -> None:
    jobs = {
        (state, days): world.job(f"{state}-{days}", days, state)
        for state in (State.SUCCEEDED, State.FAILED, State.LOST, State.STOPPED)
        for days in (9, 11, 31)
    }
    world.look(KeepConfig(succeeded=30.0, failed=10.0, newest=0))
    gone = {key for key, job in jobs.items() if world.there(job) == (False, False, False)}
    assert gone == {
        (State.SUCCEEDED, 31),
        *((state, days) for state in (State.FAILED, State.LOST) for days in (11, 31)),
    }
    assert all(world.there(jobs[key]) == (True, True, True) for key in jobs.keys() - gone)


def test_nothing_is_deleted_unless_somebody_says_so(world: World) -> None:
    job = world.job("a", 10_000)
    assert not KeepConfig().active()
    assert world.look(KeepConfig()) == 0 and world.there(job) == (True, True, True)


def test_the_newest_of_each_owner_stay_and_more_than_the_most_go(world: World) -> None:
    annas = [world.job(f"a{number}", 100 - number) for number in range(5)]
    bens = [world.job(f"b{number}", 100 - number, owner="ben") for number in range(2)]
    world.look(KeepConfig(succeeded=1.0, newest=3))
    assert [world.there(job)[0] for job in (*annas, *bens)] == [False, False, True, True, True, True, True]
    world.look(KeepConfig(newest=0, most=2))
    assert [world.there(job)[0] for job in (*annas, *bens)] == [False, False, False, True, True, True, True]


def test_what_others_need_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    registered, held, unsent = (world.job(name, 100) for name in ("registered", "held", "unsent"))
    (world.home / "runs/registered/release.json").write_text(json.dumps({"version": "3"}))
    unregistered = world.job("unregistered", 100)
    (world.home / "runs/unregistered/release.json").write_text(json.dumps({"version": None}))
    waited_for = world.job("waited-for", 100)
    follower = world.job("follower", 0, None, after=[waited_for.id])
    used = world.job("used", 100)
    plan = {"places": [{"path": str(world.home / "runs/used/bundle"), "use": "read"}]}
    asks = world.ledger.submit("ben", "evaluate", [])
    world.ledger.change(asks, State.PLANNED, "planner", "", plan=plan)
    monkeypatch.setattr(retention.lock, "is_held", lambda run: run.name == "held")
    monkeypatch.setattr(retention.spool, "pending", lambda run: int(run.name == "unsent"))
    found = list(Retention(world.ledger, ALL, world.home).due())
    assert {one.job.id: one.stays for one in found} == {
        registered.id: "its model is registered",
        held.id: "a process works on its run",
        unsent.id: "MLflow has not all of its run's records",
        unregistered.id: "",
        waited_for.id: "an unfinished job or a schedule names it",
        used.id: "an unfinished job uses its run",
    }
    assert sum(summary(found).values()) == 5
    assert world.look() == 1
    assert world.there(unregistered) == (False, False, False)
    for job in (registered, held, unsent, waited_for, used, follower):
        assert world.there(job) == (True, True, True)


def test_a_run_goes_with_the_last_of_its_jobs(world: World) -> None:
    first, second = world.job("same", 100), world.job("same", 5)
    world.look()
    assert world.there(first) == (False, False, True) and world.there(second) == (True, True, True)
    assert world.look(KeepConfig(succeeded=1.0, newest=0)) == 1
    assert world.there(second) == (False, False, False)


def test_runs_that_are_not_this_homes_and_shards_stay(world: World, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "run.json").write_text("{}")
    linked, kept = world.job("linked", 100), world.job("kept", 100)
    folder = world.home / "runs" / "linked"
    folder.rename(world.home / "runs" / "before")
    folder.symlink_to(elsewhere)
    shards = world.home / "shards" / "s"
    shards.mkdir(parents=True)
    world.look(KeepConfig(succeeded=30.0, newest=0, runs=False))
    assert world.there(kept) == (False, False, True) and world.there(linked)[0] is False
    assert (elsewhere / "run.json").is_file() and folder.is_symlink() and shards.is_dir()


def test_it_goes_in_steps_and_counts_and_the_trail_says_why(world: World, caplog: pytest.LogCaptureFixture) -> None:
    jobs = [world.job(f"r{number}", 100) for number in range(STEP + 3)]
    metrics = Metrics()
    with caplog.at_level("INFO"):
        assert world.look(metrics=metrics) == STEP
        assert world.look(metrics=metrics) == 3
        assert world.look(metrics=metrics) == 0
    assert not any(any(world.there(job)) for job in jobs)
    assert [record.getMessage() for record in caplog.records] == [
        "service.keep: deleted 20 ended jobs; 0.0 MB are free again",
        "service.keep: deleted 3 ended jobs; 0.0 MB are free again",
    ]
    assert b"dragoman_deleted_jobs_total 23.0" in metrics.telemetry.text()
    last = [one for one in world.ledger.changes() if one.action == "remove"][-1]
    assert (last.actor, last.reason) == ("service", "service.keep: succeeded 100 days ago")


def test_a_killed_service_goes_on_where_it_was(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    job = world.job("a", 100)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Ledger, "remove", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        world.look()
    assert world.there(job) == (True, False, False)
    assert world.look() == 1 and world.there(job) == (False, False, False)


def test_folders_of_jobs_that_were_removed_by_hand_go_after_a_week(world: World) -> None:
    job, other = world.job("a", 1), world.home / "jobs" / "notes"
    other.mkdir()
    world.ledger.remove(job, "anna")
    world.look()
    assert world.there(job)[1]
    for folder in (world.home / "jobs" / job.id, other):
        os.utime(folder, (1e9, 1e9))
    world.look()
    assert not world.there(job)[1] and other.is_dir() and world.there(job)[2]


def test_the_command_and_the_route_show_what_would_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = World(tmp_path)
    job = world.job("a", 100)
    loop = make_loop(f"sqlite:///{tmp_path}/service/ledger.db", tmp_path)
    loop.ledger.now = lambda: NOW
    with client(loop, owner="root") as http:
        assert http.get("/v1/retention").json()["jobs"] == []  # the service keeps everything
        verb(JobsConfig(), service(http), ["succeeded=30", "newest=0"])
        assert http.get("/v1/retention?succeeded=-1").status_code == 422
        assert http.get("/v1/retention?sucseeded=1").status_code == 422
    said = capsys.readouterr().out
    assert job.id in said and "1 jobs would be deleted" in said and "service.keep.succeeded=30.0" in said
    assert world.there(job) == (True, True, True)
    loop.ledger.database.close()
    world.ledger.database.close()
