"""Submissions that are kept under names, submitted again with changes, and several at once."""

from collections.abc import Callable

import pytest

from dragoman.model.errors import UserError
from dragoman.services.jobs.ledger.access import Access
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.ledger.presets import MOST, Presets
from dragoman.services.jobs.options import MOST_RUNS, merge_words
from dragoman.services.jobs.service.loop import Loop
from tests.services.jobs.at_work import client
from tests.services.jobs.processes import words

pytestmark = [
    pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`"),
    pytest.mark.filterwarnings("ignore:You should not use the 'timeout' argument with the TestClient"),
]
Ask = Callable[..., int]


def test_later_words_win() -> None:
    assert merge_words(["model=a", "+x=1", "~y", "z=1"], ["x=2", "y=3"]) == ["model=a", "z=1", "x=2", "y=3"]


@pytest.mark.usefixtures("planned")
def test_a_preset_is_kept_listed_used_with_changes_and_removed(
    loop: Loop, ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    base = words(loop.home, "base", 3)
    assert ask("submit", "--save", "nightly", "train", "jobs.priority=high", "jobs.tags=[a,b]", *base) == 0
    assert capsys.readouterr().out.strip() == "nightly"
    assert loop.ledger.jobs() == []  # it is kept and nothing is queued
    assert ask("presets") == 0
    assert f"train jobs.priority=high jobs.tags=[a,b] {' '.join(base)}" in capsys.readouterr().out
    assert ask("submit", "--from", "nightly", "steps=7", "jobs.retries=2", "jobs.priority=low") == 0
    (job,) = loop.ledger.jobs()
    assert job.words == [*(word for word in base if word != "steps=3"), "steps=7"]
    assert (job.verb, job.priority, job.retries, job.tags) == ("train", -10, 2, ["a", "b"])
    capsys.readouterr()
    assert ask("presets", "rm", "nightly") == 0
    assert "nightly" not in capsys.readouterr().out
    assert ask("submit", "--from", "nightly") == 2
    assert "preset or job" in capsys.readouterr().err


@pytest.mark.usefixtures("planned")
def test_a_job_is_submitted_again_with_changes(loop: Loop, ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    first = words(loop.home, "one", 3)
    job = loop.ledger.submit(
        "anna", "train", [*first, "name=one"], priority=10, tags=["t", "array-1f2e"], retries=1, max_seconds=5400
    )
    assert ask("submit", "--from", job.id) == 2
    assert "add name=NEW" in capsys.readouterr().err
    assert ask("submit", "--from", job.id, "name=two", "jobs.retries=0") == 0
    again = loop.ledger.jobs()[0]
    assert again.words == [*first, "name=two"]
    assert (again.priority, again.tags, again.retries, again.max_seconds) == (10, ["t"], 0, 5400.0)
    assert ask("submit", "--from", job.id, "evaluate", "name=two") == 2
    assert "evaluate" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (("--save", "a", "train", "corpus.root=${oc.env:HOME}"), "no ${...}"),
        (("--save", "a", "train", "jobs.every='0 3 * * *'"), "a preset keeps jobs.priority"),
        (("--save", "a", "fly"), "fly"),
        (("--save", "a b", "train"), "no name"),
        (("--from", "none"), "preset or job"),
        (("--array", "train", "seed=1"), "give a key some values"),
        (("--array", "train", "seed=range(1,300)"), "at most 100"),
        (("--array", "train", "seed=(1"), "seed=(1"),
        (("--array", "--every", "0 3 * * *", "train", "seed=1,2"), "single job"),
        (("--array", "train", "seed=1,2", "jobs.after=[none]"), "none"),
        (("--array", "seed=1,2"), "say which verb"),
    ],
)
def test_what_cannot_be_kept_or_submitted_is_refused(
    loop: Loop, ask: Ask, capsys: pytest.CaptureFixture[str], line: tuple[str, ...], says: str
) -> None:
    assert ask("submit", *line) == 2
    assert says in capsys.readouterr().err
    assert loop.ledger.jobs() == [] and Presets(loop.ledger).all("root") == []


@pytest.mark.parametrize("option", ["--save", "--from"])
def test_an_option_without_its_name_is_refused(ask: Ask, option: str) -> None:
    with pytest.raises(UserError, match=f"{option}: say the name"):
        ask("submit", option, "seed=1")


def test_presets_are_their_owners(loop: Loop) -> None:
    access = Access(loop.ledger)
    access.issue("root", "root", "admin", "test")
    tokens = {name: access.issue(name, name, "submitter", "test") for name in ("anna", "bert")}
    body = {"verb": "shard", "words": ["seed=1"]}
    with client(loop, keys=True, token=tokens["anna"]) as http:
        assert http.put("/v1/presets/mine", json=body).json()["words"] == ["seed=1"]
        assert http.put("/v1/presets/mine", json={**body, "words": ["seed=2"]}).status_code == 200
    with client(loop, keys=True, token=tokens["bert"]) as http:
        assert http.get("/v1/presets").json() == []
        assert http.delete("/v1/presets/mine").status_code == 400
    with client(loop, keys=True, token=tokens["anna"]) as http:
        assert [one["words"] for one in http.get("/v1/presets").json()] == [["seed=2"]]
        assert http.delete("/v1/presets/mine").status_code == 204


def test_an_owner_has_so_many_and_a_name_only_once(ledger: Ledger) -> None:
    items = Presets(ledger)
    for number in range(MOST):
        items.put("anna", f"n{number}", {"query": "a"})
    with pytest.raises(UserError, match=f"{MOST} presets"):
        items.put("anna", "more", {"query": "a"})
    items.put("anna", "n5", {"query": "b"})
    items.put("bert", "more", {"verb": "train", "words": []})
    assert len(items.all("anna")) == MOST and items.get("anna", "n5").content == {"query": "b"}


def test_an_array_is_every_combination_with_one_tag(
    loop: Loop, ask: Ask, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    job = [word for word in words(loop.home, "x", 3) if not word.startswith("steps=")]
    assert ask("submit", "--array", "pause=0.1,0.2", "train", *job[:1], "steps=3,4", "jobs.tags=[mine]", *job[2:]) == 0
    told = capsys.readouterr()
    jobs = loop.ledger.jobs(ascending=True)
    assert told.out.split() == [one.id for one in jobs] and len(jobs) == 4
    tags = {tuple(one.tags) for one in jobs}
    assert len(tags) == 1
    (_, tag) = tags.pop()
    assert tag.startswith("array-") and f"dragoman stop tag={tag}" in caplog.text
    varied = [{word for word in one.words if word.startswith(("pause", "steps", "name"))} for one in jobs]
    assert varied == [
        {f"pause={pause}", f"steps={steps}", f"name={tag}-{number}"}
        for number, (pause, steps) in enumerate([("0.1", 3), ("0.1", 4), ("0.2", 3), ("0.2", 4)], 1)
    ]
    assert ask("stop", f"tag={tag}", "--yes") == 0
    assert {one.state for one in loop.ledger.jobs()} == {"stopped"}
    assert ask("rm", f"tag={tag}", "--yes") == 0
    assert loop.ledger.jobs() == []


def test_an_array_is_entered_whole_or_not_at_all_and_never_twice(loop: Loop) -> None:
    body = {"verb": "shard", "overrides": words(loop.home, "x", 3), "key": "k"}
    with client(loop) as http:
        runs = [[f"steps={number}"] for number in range(3)]
        wrong = http.post("/v1/arrays", json={**body, "runs": [*runs, ["cluster.workers=999"]]})
        assert wrong.status_code == 400 and "999" in wrong.text
        assert http.post("/v1/arrays", json={**body, "runs": [["a=1"]] * (MOST_RUNS + 1)}).status_code == 422
        loop.config.waiting = 2
        assert http.post("/v1/arrays", json={**body, "runs": runs}).status_code == 429
        assert loop.ledger.jobs() == []
        loop.config.waiting = 100
        made = http.post("/v1/arrays", json={**body, "runs": runs})
        assert made.status_code == 201, made.text
        again = http.post("/v1/arrays", json={**body, "runs": runs})
        assert [one["id"] for one in again.json()] == [one["id"] for one in made.json()]
        assert len(loop.ledger.jobs()) == 3
        assert len(http.get("/v1/jobs", params={"tag": made.json()[0]["tags"][-1]}).json()["jobs"]) == 3
