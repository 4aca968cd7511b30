"""Notices: received by a server of our own, signed, tried again, never sent twice, each within its deadline."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from sqlalchemy import select

from dragoman.model.errors import UserError
from dragoman.services.jobs.ledger.database import Job, Notice
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.service.webhook import CHECK_EVERY, PAUSES, Webhook, read_key, signature
from dragoman.services.jobs.settings import WebhookConfig
from dragoman.services.jobs.states import State
from tests.services.jobs.processes import bring

KEY = bytes(range(32))
IMPOSSIBLE = ["ftp://x", "x:80", "/x", "https:///x", "https://a..b/x", f"https://{'a' * 70}.org/x", "https://xn--/x"]
IMPOSSIBLE += ["https://a b/x", "https://h:0/x", "https://h:99999/x", "https://[::1"]


class Receiver(ThreadingHTTPServer):
    """Keeps what it gets, and answers with `answers`, then 204; `drips`: a byte now and then, never a whole answer."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.posts: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []
        self.drips = False


class Answer(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posts.append(({key.lower(): value for key, value in self.headers.items()}, body))
        while self.server.drips:
            try:
                self.wfile.write(b"H")
                self.wfile.flush()
            except OSError:
                return
            time.sleep(0.02)
        self.send_response(self.server.answers.pop(0) if self.server.answers else 204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def received() -> Iterator[Receiver]:
    server = Receiver()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.drips = False
    server.shutdown()
    server.server_close()


@pytest.fixture
def config(tmp_path: Path, received: Receiver) -> WebhookConfig:
    (tmp_path / "key").write_text(f"whsec_{base64.b64encode(KEY).decode()}\n")
    (tmp_path / "key").chmod(0o600)
    url = f"http://127.0.0.1:{received.server_address[1]}/hook"
    return WebhookConfig(url, str(tmp_path / "key"), timeout=20, stuck=100.0)


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.at = 1_000_000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock(ledger: Ledger) -> Clock:
    ledger.now = found = Clock()  # type: ignore[assignment]
    return found


def looked(webhook: Webhook, clock: Clock, later: float = 3.0) -> int:
    """Looks after `later` seconds: on PostgreSQL a change is told of after a moment."""
    clock.at += later
    return webhook.look()


def started(ledger: Ledger, name: str = "demo") -> Job:
    return bring(ledger, ledger.submit("anna", "train", [], name=name), State.RUNNING, run=f"run {name}", plan={})


def ended(ledger: Ledger, job: Job, state: State = State.FAILED, why: str = "exit code 1") -> Job:
    return ledger.end(job, state, str(state), why, why, 1)


def notices(ledger: Ledger, job: Job) -> list[Notice]:
    return ledger.database.all(select(Notice).where(Notice.job == job.id).order_by(Notice.created))


def test_what_becomes_of_jobs_is_told_once_and_signed(
    ledger: Ledger, clock: Clock, received: Receiver, config: WebhookConfig
) -> None:
    webhook = Webhook(ledger, config, "http://pages:8300/")
    old = ended(ledger, started(ledger))
    assert looked(webhook, clock) == 0  # what happened before there were notices is not told
    refused = ledger.submit("carl", "train", [])
    ledger.change(refused, State.FAILED, "planner", "no such key")
    job = ended(ledger, started(ledger))
    assert [looked(webhook, clock), looked(webhook, clock), looked(Webhook(ledger, config, ""), clock)] == [2, 0, 0]
    told = {one["data"]["job"]: one for one in (json.loads(body) for _, body in received.posts)}
    assert told[refused.id]["data"]["text"] == f"carl's train ({refused.id}) failed: no such key"
    content = told[job.id]
    assert (content["type"], content["data"]["name"], content["data"]["attempt"]) == ("job.failed", "demo", 1)
    assert content["data"]["text"] == f"anna's train demo ({job.id}) failed: exit code 1"
    assert content["data"]["url"] == f"http://pages:8300/jobs/{job.id}"
    for headers, body in received.posts:
        at = int(headers["webhook-timestamp"])
        assert headers["webhook-signature"] == signature(KEY, headers["webhook-id"], at, body)
    assert notices(ledger, old) == []
    assert all(one.sent and one.tries == 1 and one.due is None for one in notices(ledger, job))


def test_the_signature_is_that_of_standard_webhooks() -> None:
    """The example of the specification's reference libraries."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    found = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_failed_delivery_is_tried_again_later_under_its_id_and_given_up(
    ledger: Ledger, clock: Clock, received: Receiver, config: WebhookConfig
) -> None:
    webhook = Webhook(ledger, config, "")
    looked(webhook, clock)
    job = ended(ledger, started(ledger))
    received.answers = [503, 429]
    assert looked(webhook, clock) == 0
    assert looked(webhook, clock, PAUSES[0] / 2) == 0
    assert len(received.posts) == 1  # its pause is not over
    assert looked(webhook, clock, PAUSES[0]) == 0
    assert looked(webhook, clock, PAUSES[1]) == 1
    assert len({headers["webhook-id"] for headers, _ in received.posts}) == 1
    assert [(one.tries, one.error) for one in notices(ledger, job)] == [(3, "")]
    again = ended(ledger, started(ledger, "again"))
    received.answers = [410]
    looked(webhook, clock)
    assert [(one.tries, one.error, one.due) for one in notices(ledger, again)] == [(1, "HTTP 410", None)]


def test_a_receiver_that_never_finishes_holds_no_delivery_beyond_its_deadline(
    ledger: Ledger, clock: Clock, received: Receiver, config: WebhookConfig
) -> None:
    config.timeout = 0.3
    webhook = Webhook(ledger, config, "")
    looked(webhook, clock)
    jobs = [ended(ledger, started(ledger, name)) for name in ("a", "b", "c")]
    received.drips = True
    assert looked(webhook, clock) == 0
    received.drips = False
    assert [one.error for job in jobs for one in notices(ledger, job)] == ["no answer within 0.3 s"] * 3
    config.timeout = 20.0
    assert looked(webhook, clock, PAUSES[0]) == 3


def test_what_a_killed_service_had_claimed_is_sent_by_the_next(
    ledger: Ledger, clock: Clock, config: WebhookConfig
) -> None:
    webhook = Webhook(ledger, config, "")
    looked(webhook, clock)
    job = ended(ledger, started(ledger))
    clock.at += 3
    webhook._enter()
    webhook._claim()  # it died between the claim and the delivery
    following = Webhook(ledger, config, "")
    assert (looked(following, clock), looked(following, clock, PAUSES[0])) == (0, 1)
    assert [one.tries for one in notices(ledger, job)] == [2]


def test_stuck_and_preempted_jobs_are_told_of_once_an_attempt(
    ledger: Ledger, clock: Clock, received: Receiver, config: WebhookConfig
) -> None:
    webhook = Webhook(ledger, config, "")
    looked(webhook, clock)
    job = ledger.change(started(ledger), State.YIELDING, "scheduler", "asked to make room for j-7")
    job = ledger.end(job, State.WAITING, "yielded", "preemption", "made room", 75)
    assert looked(webhook, clock) == 1
    assert [looked(webhook, clock, 101), looked(webhook, clock, CHECK_EVERY)] == [1, 0]
    assert [one.event for one in notices(ledger, job)] == ["preempted", "stuck"]
    unplanned = ledger.submit("anna", "train", [])
    starting = bring(ledger, ledger.submit("anna", "train", []), State.STARTING, run="run b", plan={})
    looked(webhook, clock)
    looked(webhook, clock, config.stuck + CHECK_EVERY)
    texts = {one["data"]["job"]: one["data"]["text"] for one in (json.loads(body) for _, body in received.posts)}
    assert "for its plan" in texts[unplanned.id] and "for the cluster to start it" in texts[starting.id]


def test_a_weak_key_and_impossible_settings_are_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("whsec_c2hvcnQ=")
    with pytest.raises(UserError, match="5 bytes; at least 24"):
        read_key(str(tmp_path / "key"))
    for config, message in (
        *((WebhookConfig(url), r"service\.webhook\.url=") for url in IMPOSSIBLE),
        (WebhookConfig("https://x"), r"service\.webhook\.secret: is missing"),
    ):
        with pytest.raises(UserError, match=message):
            config.check()
