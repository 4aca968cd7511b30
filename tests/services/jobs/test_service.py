"""The REST interface: roles, owners, pages, streams, limits, and no 5xx to whatever our own OpenAPI allows."""

import base64
import json
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from dragoman.services.http.rates import Rate
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.records import attempt_of
from dragoman.services.jobs.routes import ROUTES
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.states import State
from tests.services.jobs.at_work import LOCAL, application, client
from tests.services.jobs.processes import bring, words

# Starlette's client would rather have the next httpx.
PARTS = 8  # of the operations, a test each
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`")


def submission(loop: Loop, name: str = "a", **more: Any) -> dict[str, Any]:
    return {"verb": "train", "overrides": words(loop.home, name, 3), **more}


def test_a_job_is_entered_planned_listed_explained_and_stopped(loop: Loop) -> None:
    with client(loop) as http:
        job = http.post("/v1/jobs", json=submission(loop, priority="high", key="k")).json()
        assert http.post("/v1/jobs", json=submission(loop, key="k")).json()["id"] == job["id"]
        assert (job["state"], job["priority"], job["owner"]) == ("submitted", 10, "anna")
        loop._take()
        assert http.get(f"/v1/jobs/{job['id']}/why").json()["kind"] == "next"
        detail = http.get(f"/v1/jobs/{job['id']}").json()
        assert [one["after"] for one in detail["changes"]] == ["submitted", "planned", "waiting"]
        assert http.post(f"/v1/jobs/{job['id']}/yield", json={}).status_code == 409
        assert http.post(f"/v1/jobs/{job['id']}/stop", json={}).json()["state"] == "stopped"
        assert http.post(f"/v1/jobs/{job['id']}/retry", json={}).json()["state"] == "submitted"
        http.post(f"/v1/jobs/{job['id']}/stop", json={})
        assert http.delete(f"/v1/jobs/{job['id']}").status_code == 204
        assert http.get(f"/v1/jobs/{job['id']}").status_code == 404


def test_a_list_is_read_page_by_page(loop: Loop) -> None:
    for number in range(5):
        loop.ledger.submit("anna", "train", [f"n={number}"])
    with client(loop) as http:
        first = http.get("/v1/jobs", params={"limit": 2}).json()
        second = http.get("/v1/jobs", params={"limit": 4, "cursor": first["next"]}).json()
        assert [job["words"] for job in first["jobs"] + second["jobs"]] == [[f"n={n}"] for n in (4, 3, 2, 1, 0)]
        assert second["next"] is None
        assert first["counts"] == {"submitted": 5}


def test_a_page_of_another_origin_can_hand_in_nothing(loop: Loop) -> None:
    content = json.dumps(submission(loop))
    with client(loop) as http:
        for headers, code in (
            ({"Origin": "http://evil.example"}, 403),
            ({"Origin": "null"}, 403),
            ({"Host": "evil.example:8300"}, 403),
            ({"Content-Type": "text/plain"}, 415),
            ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
            ({"X-Dragoman-Owner": "a b"}, 400),
            ({"Origin": LOCAL}, 201),
        ):
            found = http.post("/v1/jobs", content=content, headers={"Content-Type": "application/json"} | headers)
            assert found.status_code == code, headers
            assert len(loop.ledger.jobs()) == (code == 201)


def test_too_many_and_too_large_are_refused(loop: Loop) -> None:
    loop.config.rate, loop.config.burst, loop.config.waiting = 0.1, 3, 1
    with client(loop) as http:
        assert http.post("/v1/jobs", content=b"x" * (loop.config.body + 1)).status_code == 413
        assert http.post("/v1/jobs", json=submission(loop)).status_code == 201
        assert http.post("/v1/jobs", json=submission(loop)).status_code == 429  # one that has not ended is enough
        assert http.get("/v1/jobs").status_code == 200
        refused = http.get("/v1/jobs")
        assert refused.status_code == 429
        assert int(refused.headers["Retry-After"]) >= 1
        assert http.get("/v1/jobs", headers={"X-Dragoman-Owner": "ben"}).status_code == 200


def test_a_stream_goes_on_from_the_id_that_was_seen_last_and_ends_with_the_job(loop: Loop) -> None:
    with client(loop) as http:
        job = loop.ledger.submit("anna", "train", words(loop.home, "a", 3))
        loop._take()
        job = loop.ledger.change(loop.ledger.job(job.id), State.STOPPED, "anna", "enough")

        def states(**more: Any) -> list[str]:
            text = http.get("/v1/events", params={"job": job.id}, **more).text
            blocks = [block for block in text.split("\n\n") if "event: change" in block]
            return [json.loads(block.partition("data: ")[2])["after"] for block in blocks]

        assert states() == ["submitted", "planned", "waiting", "stopped"]
        assert states(headers={"Last-Event-ID": str(loop.ledger.changes()[1].id)}) == ["waiting", "stopped"]
        assert states(headers={"Last-Event-ID": "x; DROP TABLE"}) == states()


def test_logs_are_given_by_bytes_and_followed_over_attempts(loop: Loop) -> None:
    job = loop.ledger.submit("anna", "train", words(loop.home, "a", 3))
    loop._take()
    for number, text in ((1, "eins – ä\n"), (2, "zwei\n")):
        bring(loop.ledger, loop.ledger.job(job.id), State.STARTING)
        attempt = attempt_of(loop.home, job.id, number)
        attempt.folder.mkdir(parents=True, exist_ok=True)
        attempt.log.write_text(text, encoding="utf-8")
        state, outcome = (State.WAITING, "yielded") if number == 1 else (State.SUCCEEDED, "succeeded")
        loop.ledger.end(loop.ledger.job(job.id), state, outcome, "", "")
    with client(loop) as http:
        found = http.get(f"/v1/jobs/{job.id}/logs", params={"attempt": 1, "offset": 5, "limit": 3})
        assert (found.content, found.headers["X-Next-Offset"]) == ("eins – ä\n".encode()[5:8], "8")
        assert http.get(f"/v1/jobs/{job.id}/logs", params={"attempt": 3}).status_code == 404
        service = JobClient(LOCAL)
        service._http.close()
        service._http = http
        from_first = service.stream("log-events", {"attempt": 1}, id=job.id)
        assert b"".join(base64.b64decode(one["text"]) for one in from_first) == "eins – ä\nzwei\n".encode()
        assert b"".join(service.follow(job.id)) == b"zwei\n"
        assert b"".join(service.log(job.id)) == b"zwei\n"


def test_the_table_of_routes_has_what_the_interface_answers(loop: Loop) -> None:
    with client(loop) as http:
        paths = http.get("/openapi.json").json()["paths"]
    answered = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert answered == set(ROUTES.values())


def test_curves_are_thinned_and_steps_trained_again_count_once(loop: Loop) -> None:
    run = loop.home / "run"
    job = loop.ledger.submit("anna", "train", words(loop.home, "run", 3))
    loop._take()
    run.mkdir()
    lines = [{"step": n, "loss": 1 / n, "tokens": 100, "batch": "a", "seconds": n / 4} for n in range(1, 4001)]
    again = [{"step": n, "loss": 2.0, "tokens": 100, "seconds": n / 4} for n in range(3997, 4001)]
    losses = [{"step": 4000, "valid_loss": 0.5, "seconds": 1000.0}]
    (run / "steps.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in [*lines, *again, *losses]) + '{"step": 9'
    )
    (run / "release.json").write_text('{"version": "3", "bleu": "BLEU = 88.1"}')
    with client(loop) as http:
        found = http.get(f"/v1/jobs/{job.id}/curves").json()
        nothing = loop.ledger.submit("anna", "shard", ["corpus=everyday"])
        assert http.get(f"/v1/jobs/{nothing.id}/curves").json()["curves"] == {}
    curves = found["curves"]
    assert set(curves) == {"loss", "valid_loss", "tokens_per_second"}
    assert 500 < len(curves["loss"]) <= 1000
    assert curves["loss"][0] == [1, 1.0] and curves["loss"][-1] == [4000, 2.0]
    assert curves["valid_loss"] == [[4000, 0.5]]
    assert all(rate == 400.0 for _, rate in curves["tokens_per_second"])
    assert found["released"] == {"version": "3", "bleu": "BLEU = 88.1"}


def test_a_bucket_fills_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("dragoman.services.http.rates.time.monotonic", lambda: now[0])
    rate = Rate(rate=2.0, burst=2)
    assert [rate.take("a") for _ in range(3)] == [0, 0, 0.5]
    now[0] = 0.5
    assert rate.take("a") == 0
    assert rate.take("b") == 0


@pytest.mark.usefixtures("generators")
@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_our_openapi_allows_is_never_answered_with_a_fault_of_ours(loop: Loop, part: int) -> None:
    loop.config.rate, loop.config.burst = 1e6, 10**6
    schema = schemathesis.openapi.from_asgi("/openapi.json", application(loop), headers={"Host": "127.0.0.1:8300"})
    answered: list[int] = []
    loop.ledger.submit("anna", "train", words(loop.home, "a", 3))

    for operation in list(schema.exclude(path_regex="events|openapi").get_all_operations())[part::PARTS]:
        _ask_all(operation.ok(), answered)
    assert answered and max(answered) < 500


def _ask_all(operation: Any, answered: list[int]) -> None:
    @given(case=operation.as_strategy())
    @settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def ask(case: Any) -> None:
        response = case.call(headers={"Host": "127.0.0.1:8300", "X-Dragoman-Owner": "anna"})
        answered.append(response.status_code)
        assert response.status_code < 500, (case.method, case.path, response.text)

    ask()
