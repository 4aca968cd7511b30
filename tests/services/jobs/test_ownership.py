"""Whose shards, runs and models are: below their owner's name, judged when planned and when started."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.conf import compose
from dragoman.model.errors import ServiceError, UserError
from dragoman.pipelines.places import find_places
from dragoman.pipelines.shard import samples_of
from dragoman.services.jobs.planning.plan import make_plan
from dragoman.services.jobs.planning.planner import Planner
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.service.ownership import MARK, Ownership
from dragoman.services.jobs.service.plans import Request
from dragoman.services.jobs.service.tracking import Tracking
from dragoman.services.jobs.states import State
from tests.services.jobs.processes import bring


class Registered(Tracking):
    """MLflow with these models and their owners."""

    def __init__(self, **owners: str) -> None:
        super().__init__("http://mlflow", "")
        self.owners, self.away = owners, False

    def model_owner(self, name: str) -> str | None:
        if self.away:
            raise ServiceError("MLflow does not answer")
        return self.owners.get(name)


@pytest.fixture
def home(loop: Loop) -> Path:
    """A home with folders of anna's and of bert's, and with shards that no job made."""
    for owner in ("anna", "bert"):
        loop.intake.ownership.mark(owner, [place(loop.home / "shards" / owner / "mine", "write")])
        loop.intake.ownership.mark(owner, [place(loop.home / "runs" / owner, "record")])
        (loop.home / "shards" / owner / "mine").mkdir()
    (loop.home / "shards/plain").mkdir()
    (loop.home / "shards/plain/manifest.json").write_text("{}")
    return loop.home


def close(loop: Loop) -> None:
    """From now on everybody needs a token."""
    loop.scheduler.access.issue("r", "root", "admin", "up")


def place(path: Path, use: str = "read") -> dict[str, str]:
    return {"key": "paths.shards", "value": str(path), "path": str(path), "use": use}


def test_an_owners_folder_is_neither_read_nor_changed_by_others(loop: Loop, home: Path) -> None:
    grant = loop.intake.ownership.grant
    mine = home / "shards/anna/mine"
    assert grant("anna", [place(mine)]) == {"read": [], "write": [str(mine)], "record": []}
    for ask in (lambda: None, lambda: close(loop)):
        ask()
        for path in (mine, mine / "inside", mine.parent, home / "shards", home):
            for use in ("read", "start", "write"):
                with pytest.raises(UserError, match="belongs to another owner"):
                    grant("bert", [place(path, use)])
        with pytest.raises(UserError, match="holds runs of other owners"):
            grant("bert", [place(home / "runs", "all")])
        grant("bert", [place(home / "shards/bert/new", "write"), place(home / "runs/bert", "record")])
    with pytest.raises(UserError, match="belongs to another owner"):  # nor by an admin
        grant("root", [place(mine, "write")], admin=True)
    assert grant("root", [place(mine)], admin=True)["read"] == [str(mine)]


def test_what_no_job_made_is_read_by_all_and_changed_by_admins(loop: Loop, home: Path) -> None:
    grant, plain = loop.intake.ownership.grant, home / "shards/plain"
    grant("bert", [place(plain, "write")])  # a service that asks nobody for a token
    close(loop)
    assert grant("bert", [place(plain)])["read"] == [str(plain)]
    assert grant("root", [place(plain, "write")], admin=True)["write"] == [str(plain)]
    for path in (plain, home / "shards/new"):
        with pytest.raises(UserError, match=f"a job of bert writes below {home}/shards/bert; leave paths.shards out"):
            grant("bert", [place(path, "write")])
    assert grant("bert", [place(home / "runs/bert/gone", "maybe")]) == {"read": [], "write": [], "record": []}


def test_a_record_of_a_sharding_is_gone_on_with_by_its_owner(loop: Loop, home: Path) -> None:
    runs = home / "runs/anna"
    (runs / "shard-text-0").mkdir()
    (runs / "shard-text-1").symlink_to("/etc")
    granted = loop.intake.ownership.grant("anna", [place(runs, "record")])
    assert granted == {"read": [], "write": [str(runs / "shard-text-0")], "record": [str(runs)]}


def test_a_folder_that_has_an_owners_name_and_was_made_by_no_job_stays_as_it_is(loop: Loop, home: Path) -> None:
    (home / "shards/carl").mkdir()
    (home / "shards/carl/manifest.json").write_text("{}")
    with pytest.raises(UserError, match="was made by no job, and carl's shards go there"):
        loop.intake.ownership.mark("carl", [place(home / "shards/carl/mine", "write")])
    assert not (home / "shards/carl" / MARK).exists()


@pytest.mark.parametrize("corpus", ["everyday", "webdataset"])
def test_a_sharding_may_write_the_lines_that_its_corpus_becomes(corpus: str) -> None:
    values = compose.values([f"corpus={corpus}"])
    shards = Path(values["paths"]["shards"]).absolute()
    written = {Path(one.path) for one in find_places("shard", values) if one.use == "write"}
    assert {shards, samples_of(shards)} <= written


class Plans:
    """Plans as the planner makes them, in this process."""

    def __init__(self, home: Path) -> None:
        self.roots, self.secrets = [str(home)], list[str]()

    def plan(self, verb: str, words: list[str], gpus: float, early: bool, owner: str, _: object) -> dict[str, Any]:
        return make_plan(verb, words, [Path(self.roots[0])], gpus, early, owner=owner)


@pytest.fixture
def plan(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    monkeypatch.setenv("DRAGOMAN_HOME", str(loop.home))
    loop.intake.plans.planner = Plans(loop.home)  # type: ignore[assignment]  # as far as it is asked

    def plan(owner: str, verb: str, *words: str, early: bool = False) -> dict[str, Any]:
        return loop.intake.plans.make(Request(owner, verb, words, early=early), loop.capacity)

    return plan


def test_two_owners_first_commands_are_the_same_and_never_collide(
    loop: Loop, plan: Callable[..., dict[str, Any]]
) -> None:
    close(loop)
    for owner in ("anna", "bert"):
        sharding = plan(owner, "shard", "corpus=everyday")
        assert sharding["claims"] == f"shards {loop.home}/shards/{owner}/everyday-en-de-bpe"
        training = plan(owner, "train", "corpus=everyday", "name=base", early=True)
        assert training["run_dir"] == f"{loop.home}/runs/{owner}/base"
        assert training["model"] == f"{owner}.everyday-en-de"
        loop.intake.ownership.mark(owner, sharding["places"])
        (loop.home / "shards" / owner / "everyday-en-de-bpe").mkdir()
    with pytest.raises(UserError, match="belongs to another owner"):
        plan("bert", "shard", "corpus=everyday", f"paths.shards={loop.home}/shards/anna/everyday-en-de-bpe")
    with pytest.raises(UserError, match="belongs to another owner"):
        plan("bert", "shard", "corpus=everyday", "paths.owner=anna")


def test_a_model_is_its_owners_by_the_registrys_tag(loop: Loop) -> None:
    registry = Registered(**{"anna.m": "anna", "old": ""})
    ownership = Ownership(loop.ledger, loop.home, registry)
    close(loop)

    def check(owner: str, model: str, admin: bool = False, verb: str = "promote") -> str:
        return ownership.check_model({"verb": verb, "model": model}, owner, admin)

    assert check("anna", "anna.m") == check("root", "anna.m", admin=True) == "anna"
    assert (check("bert", "bert.new", verb="train"), check("bert", "")) == ("bert", "")
    for model, message in (
        ("anna.m", "belongs to another owner; choose another registry.name="),
        ("old", "has no owner, so only an admin's job changes it"),
        ("fresh", "a model of bert is called bert.NAME"),
    ):
        with pytest.raises(UserError, match=message):
            check("bert", model, verb="train")
    assert check("root", "old", admin=True) == ""
    registry.away = True  # the job's own process asks MLflow
    assert check("bert", "bert.x") == "bert"


def test_a_model_that_was_given_away_is_looked_at_again_when_its_job_starts(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop.intake.ownership.tracking = registry = Registered(**{"anna.m": "anna"})
    job = loop.ledger.submit("anna", "promote", [])
    bring(loop.ledger, job, State.STARTING, plan={"verb": "promote", "model": "anna.m", "words": []}, choices=[1])
    registry.owners["anna.m"] = "bert"
    monkeypatch.setattr(loop.attempts.executor, "submit", lambda _: pytest.fail("it was started"))
    loop.attempts.hand_over(loop.ledger.jobs([State.STARTING], plans=True)[0])
    ended = loop.ledger.job(job.id)
    assert ended.state == State.FAILED and "belongs to another owner" in ended.reason


def test_a_plan_names_the_model_that_the_job_writes_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path))

    def model(verb: str, *words: str) -> str:
        return str(make_plan(verb, words, [tmp_path], 0, True)["model"])

    assert model("train", "corpus=everyday") == "everyday-en-de"
    assert model("train", "registry.name=mine") == "mine"
    assert model("train", "registry={name: mine}") == "mine"
    assert model("train", "registry.register=false") == ""
    assert model("promote", "promote.force=true", "promote.reason=x", "registry.name=m") == "m"
    assert model("rollback", "corpus=everyday", "paths.owner=anna") == "anna.everyday-en-de"
    assert model("shard") == ""


@pytest.mark.long
def test_shards_that_no_job_made_are_read_where_they_are(
    home: Path, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dragoman.services.cli import main

    monkeypatch.setenv("DRAGOMAN_HOME", str(home))
    words = ["corpus=everyday", "tokenizer=characters"]
    assert main(["shard", *words, "cluster.backend=local"]) == 0
    loop.intake.plans.planner = Planner([home])
    try:
        plan = loop.intake.plans.make(Request("anna", "train", [*words, "cluster.backend=local"]), loop.capacity)
        assert f"paths.shards={home}/shards/everyday-en-de-characters" in plan["words"]
    finally:
        loop.intake.planner.close()
