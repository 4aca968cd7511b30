"""The filters of jobs, on both databases, over REST, and from the command line."""

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from dragoman.conf import showing
from dragoman.model.errors import UserError
from dragoman.services.jobs.client import verbs
from dragoman.services.jobs.ledger.filters import SORT_KEYS, JobQuery, moment_of
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.states import PRIORITIES, State
from dragoman.services.jobs.views import FILTERS
from tests.services.jobs.processes import words

# Starlette's client would rather have the next httpx.
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")


def found(ledger: Ledger, **wanted: Any) -> list[int]:
    """The numbers of the wanted jobs, read two at a time."""
    numbers: list[int] = []
    cursor = None
    while True:
        rows, cursor = ledger.rows(("seq",), JobQuery(**wanted), cursor, 2)
        numbers += [row.seq for row in rows]
        if cursor is None:
            return numbers


@pytest.fixture
def filled(ledger: Ledger) -> Ledger:
    """Five jobs; the clock stands at 100 for the first, at 200 for the second, and so on."""
    given = [
        ("anna", "train", ["model=rnnenc"], "demo", ["nightly"], "low"),
        ("ben", "train", ["model=rnnenc_reversed"], "demo_2", ["nightly", "paper"], "high"),
        ("anna", "shard", [], "demo", [], "normal"),
        ("carl", "train", [], "demo-x", ["night"], "normal"),
        ("anna", "train", ["model=bert_tiny"], "other", [], "normal"),
    ]
    for number, (owner, verb, overrides, name, tags, priority) in enumerate(given, 1):
        ledger.now = lambda number=number: 100.0 * number  # type: ignore[misc]
        job = ledger.submit(owner, verb, overrides, tags=tags, priority=PRIORITIES[priority])  # type: ignore[index]
        model = "words" if number == 5 else ""
        ledger.change(job, State.PLANNED, "planner", "", name=name, model=model, plan={})
    ledger.change(ledger.jobs()[0], State.STOPPED, "anna", "")
    return ledger


FOUND: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [5, 4, 3, 2, 1]),
    ({"state": [State.STOPPED]}, [5]),
    ({"state": [State.STOPPED, State.PLANNED], "owner": "anna"}, [5, 3, 1]),
    ({"verb": "shard"}, [3]),
    ({"name": "demo"}, [3, 1]),
    ({"name": "demo_*"}, [2]),
    ({"name": "demo*"}, [4, 3, 2, 1]),
    ({"name": "%"}, []),
    ({"model": "rnnenc"}, [1]),
    ({"model": "words"}, [5]),
    ({"tag": ["nightly"]}, [2, 1]),
    ({"tag": ["nightly", "paper"]}, [2]),
    ({"tag": ["night"]}, [4]),
    ({"since": "1970-01-01T00:05:00Z"}, [5, 4, 3]),
    ({"since": "1970-01-01T00:03:20Z", "until": "1970-01-01T00:05:00Z"}, [3, 2]),
    ({"sort": "submitted"}, [1, 2, 3, 4, 5]),
    ({"sort": "-priority"}, [2, 5, 4, 3, 1]),
    ({"sort": "owner"}, [5, 3, 1, 2, 4]),
    ({"sort": "state", "owner": "anna"}, [3, 1, 5]),
]


def test_filters_choose_and_order_jobs_page_by_page(filled: Ledger) -> None:
    for wanted, numbers in FOUND:
        assert found(filled, **wanted) == numbers, wanted


def test_every_key_sorts_and_counts_ignore_the_state(filled: Ledger) -> None:
    for key in SORT_KEYS:
        assert sorted(found(filled, sort=key)) == [1, 2, 3, 4, 5]
    assert filled.counts(JobQuery(owner="anna", state=[State.STOPPED])) == {"planned": 2, "stopped": 1}


def test_a_moment_is_an_age_or_a_date() -> None:
    assert moment_of("since", "2d", 1e6) == 1e6 - 172_800
    assert moment_of("since", "90 s", 1e6) == 1e6 - 90
    assert moment_of("since", "1970-01-02T00:00:00+00:00", 0.0) == 86_400
    with pytest.raises(UserError, match="until=soon: say an age"):
        moment_of("until", "soon", 0.0)


@pytest.fixture
def run(loop: Loop, ask: Callable[..., int]) -> Callable[..., int]:
    """The job commands, of a service with two waiting jobs and one that was stopped."""
    for name, tags in (("a", ["x"]), ("b", []), ("c", ["x"])):
        loop.ledger.submit("anna", "train", words(loop.home, name, 3), tags=tags)
    loop._take()
    loop.ledger.change(loop.ledger.jobs()[0], State.STOPPED, "anna", "")

    def run(*argv: str, json: bool = False) -> int:
        with showing.as_json(json):
            return ask(*argv)

    return run


def records(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_lists_and_records_are_json_a_line_each(run: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("jobs", "state=waiting", "sort=submitted", json=True) == 0
    first, second = records(capsys)
    assert [one["name"] for one in (first, second)] == ["a", "b"]
    assert first["tags"] == ["x"]
    for verb, key in (("job", "attempts"), ("why", "kind")):
        assert run(verb, first["id"], json=True) == 0
        (one,) = records(capsys)
        assert one["id"] == first["id"] and key in one
    assert run("stop", first["id"], second["id"], json=True) == 0
    assert [(one["id"], one["state"]) for one in records(capsys)] == [(one["id"], "stopped") for one in (first, second)]
    for verb in ("quota", "token"):
        assert run(verb, json=True) == 0
        assert records(capsys) == []


def test_jobs_of_a_filter_are_shown_first_and_then_stopped_and_removed(
    loop: Loop,
    run: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run("stop", "tag=x", "--dry-run") == 0
    assert capsys.readouterr().out.count("waiting") == 1  # the other job of this tag has ended
    assert loop.ledger.counts() == {"waiting": 2, "stopped": 1}
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert run("stop", "tag=x") == 2
    assert "1 job: there is no terminal to ask at; add --yes" in capsys.readouterr().err
    assert run("stop", "tag=x", "--yes") == 0
    assert loop.ledger.counts() == {"waiting": 1, "stopped": 2}
    capsys.readouterr()
    assert run("rm", "owner=anna", "--yes", json=True) == 0
    assert [one["state"] for one in records(capsys)] == ["removed", "removed"]
    assert loop.ledger.counts() == {"waiting": 1}
    waiting = loop.ledger.jobs()[0].id
    assert run("rm", waiting) == 1
    assert "stop it first" in caplog.text


WRONG = [
    ("jobs stat=failed", "filter: 'stat' is not known. Did you mean 'state'?"),
    ("jobs state=faild", "state: 'faild' is not known. Did you mean 'failed'?"),
    ("jobs failed", "failed: write state=failed"),
    ("jobs owner=", "owner= is empty"),
    ("jobs since=yesterday", "since=yesterday: say an age"),
    ("jobs sort=size", "sort"),
    ("stop", "say which job: dragoman stop JOB"),
    ("stop j-1 state=waiting", "give ids or filters, not both"),
    ("stop --force j-1", "--force: no such option"),
    ("rm nosuch", "job 'nosuch' is not known"),
]


def test_wrong_filters_are_named(run: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    for line, message in WRONG:
        assert run(*line.split()) == 2, line
        assert message in capsys.readouterr().err


@pytest.mark.usefixtures("run")
def test_the_client_has_the_same_filters_as_the_command_line() -> None:
    assert set(JobQuery.model_fields) == set(FILTERS)
    with verbs.JobClient("http://127.0.0.1:8300", owner="anna") as service:
        assert [one["tags"] for one in service.every_job(state=["waiting"], tag=["x"])] == [["x"]]
        assert len(list(service.every_job(most=2))) == 2
