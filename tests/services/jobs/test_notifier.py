"""Notices: received by servers of our own, signed, tried again, never sent twice; and what targets may not be."""

import base64
import json
from collections.abc import Iterator
from email import message_from_string
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest
from sqlalchemy import update

from dragoman.model.errors import ServiceError, UserError
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.ledger.tables import Job
from dragoman.services.jobs.service import targets
from dragoman.services.jobs.service.notifier import CHECK_EVERY, PAUSES, Notifier
from dragoman.services.jobs.service.targets import RefusedError, check_settings, check_target, shown, signature
from dragoman.services.jobs.settings import MailConfig, NotifyConfig
from dragoman.services.jobs.states import State
from tests.services.jobs.processes import bring
from tests.services.jobs.receivers import KEY, Received, receiving, write_key


@pytest.fixture
def received() -> Iterator[Received]:
    with receiving() as found:
        yield found


@pytest.fixture
def config(tmp_path: Path, received: Received) -> NotifyConfig:
    mail = MailConfig(server=f"127.0.0.1:{received.smtp}", security="none", sender="jobs@example.org")
    return NotifyConfig(secret=str(write_key(tmp_path)), hosts=["127.0.0.1"], mail=mail, timeout=20)


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


def looked(notifier: Notifier, clock: Clock, later: float = 3.0) -> int:
    """Looks after `later` seconds: on PostgreSQL a change is told of after a moment."""
    clock.at += later
    return notifier.look()


def started(ledger: Ledger, *notify: str, owner: str = "anna") -> Job:
    job = ledger.submit(owner, "train", [], notify=notify)
    return bring(ledger, job, State.RUNNING, run="run demo", seconds_high=50.0, plan={})


def ended(ledger: Ledger, job: Job, state: State = State.FAILED, why: str = "exit code 1") -> Job:
    return ledger.end(job, state, str(state), why, why, 1)


def test_each_kind_of_target_is_told_once_in_its_own_shape(
    ledger: Ledger, clock: Clock, received: Received, config: NotifyConfig
) -> None:
    url = f"http://127.0.0.1:{received.http}"
    config.owners = {"anna": ["mailto:anna@example.org", f"{url}/hook"], "ben": ["mailto:ben@example.org"]}
    notifier = Notifier(ledger, config, "http://pages:8300/")
    old = ended(ledger, started(ledger, f"{url}/old"))
    assert looked(notifier, clock) == 0  # what happened before there were notices is not told
    refused = ledger.submit("carl", "train", [], notify=[f"{url}/refused"])
    ledger.change(refused, State.FAILED, "planner", "no such key")
    job = ended(ledger, started(ledger, f"{url}/hook", f"slack:{url}/slack", f"teams:{url}/teams"))
    assert [looked(notifier, clock), looked(notifier, clock), looked(Notifier(ledger, config, ""), clock)] == [5, 0, 0]
    texts = {path: json.loads(body)["data"]["text"] for path, _, body in received.posts if "data" in json.loads(body)}
    assert texts.pop("/refused") == f"carl's train ({refused.id}) failed: no such key"
    posts = {path: (headers, json.loads(body)) for path, headers, body in received.posts}
    assert sorted(posts) == ["/hook", "/refused", "/slack", "/teams"]
    text = f"anna's train demo ({job.id}) failed: exit code 1"
    headers, content = posts["/hook"]
    assert (content["type"], content["data"]["job"], content["data"]["attempt"]) == ("job.failed", job.id, 1)
    assert content["data"]["url"] == f"http://pages:8300/jobs/{job.id}"
    body = next(body for path, _, body in received.posts if path == "/hook")
    identity, at = headers["webhook-id"], int(headers["webhook-timestamp"])
    assert headers["webhook-signature"] == signature(KEY, identity, at, body)
    assert posts["/slack"][1] == {"text": f"{text}\nhttp://pages:8300/jobs/{job.id}"}
    assert "webhook-signature" not in posts["/slack"][0]
    assert posts["/teams"][1]["attachments"][0]["content"]["body"][0]["text"] == text
    ((to, mail),) = received.mails
    assert to == "anna@example.org"
    assert message_from_string(mail)["Subject"] == f"demo: failed ({job.id})"
    assert parsedate_to_datetime(message_from_string(mail)["Date"]).year > 2025
    assert text in mail
    assert {one.target for one in ledger.notices(old.id)} == set()
    assert all(one.sent and one.tries == 1 and one.due is None for one in ledger.notices(job.id))


def test_a_mail_says_the_score_and_a_job_without_a_plan_or_a_start_is_told_after_a_while(
    ledger: Ledger, clock: Clock, received: Received, config: NotifyConfig, tmp_path: Path
) -> None:
    notifier = Notifier(ledger, config, "")
    looked(notifier, clock)
    (tmp_path / "release.json").write_text('{"bleu": "BLEU|nrefs:1|case:mixed = 31.2 60.1/35"}')
    job = started(ledger, "mailto:anna@example.org")
    with ledger.database.write() as session:
        session.execute(update(Job).values(plan={"run_dir": str(tmp_path)}))
    ended(ledger, ledger.job(job.id), State.SUCCEEDED, "succeeded")
    unplanned = ledger.submit("anna", "train", [], notify=["mailto:anna@example.org"])
    starting = ledger.submit("anna", "train", [], notify=["mailto:anna@example.org"])
    bring(ledger, starting, State.STARTING, run="run b", plan={})
    looked(notifier, clock)
    looked(notifier, clock, config.stuck + CHECK_EVERY)
    mails = [message_from_string(mail) for _, mail in received.mails]
    assert sorted(mail["Subject"] for mail in mails) == sorted(
        [f"demo: succeeded, BLEU 31.2 ({job.id})", f"train: stuck ({unplanned.id})", f"b: stuck ({starting.id})"]
    )
    bodies = " ".join(bytes(mail.get_payload(decode=True)).decode() for mail in mails)
    assert "has waited for 4 h" in bodies and "for its plan" in bodies and "for the cluster to start it" in bodies


def test_the_signature_is_that_of_standard_webhooks() -> None:
    """The example of the specification's reference libraries."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    found = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_failed_delivery_is_tried_again_later_under_its_id_and_given_up(
    ledger: Ledger, clock: Clock, received: Received, config: NotifyConfig
) -> None:
    url = f"http://127.0.0.1:{received.http}"
    notifier = Notifier(ledger, config, "")
    looked(notifier, clock)
    job = ended(ledger, started(ledger, f"{url}/a"))
    received.answers = [503, 429]
    assert looked(notifier, clock) == 0
    assert looked(notifier, clock, PAUSES[0] / 2) == 0
    assert len(received.posts) == 1  # its pause is not over
    assert looked(notifier, clock, PAUSES[0]) == 0
    assert looked(notifier, clock, PAUSES[1]) == 1
    assert len({headers["webhook-id"] for _, headers, _ in received.posts}) == 1
    assert [(one.tries, one.error) for one in ledger.notices(job.id)] == [(3, "")]
    again = ended(ledger, started(ledger, f"{url}/gone", "mailto:nobody@example.org"))
    received.answers = [410]
    looked(notifier, clock)
    assert sorted((one.tries, one.error, one.due) for one in ledger.notices(again.id)) == [
        (1, "HTTP 410", None),
        (1, "the mail server refuses nobody@example.org: 550", None),
    ]


def test_what_a_killed_service_had_claimed_is_sent_by_the_next(
    ledger: Ledger, clock: Clock, received: Received, config: NotifyConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    notifier = Notifier(ledger, config, "")
    looked(notifier, clock)
    job = ended(ledger, started(ledger, f"http://127.0.0.1:{received.http}/a"))
    monkeypatch.setattr(notifier, "_deliver", lambda _: False)  # it died between the claim and the delivery
    looked(notifier, clock)
    following = Notifier(ledger, config, "")
    assert (looked(following, clock), looked(following, clock, PAUSES[0])) == (0, 1)
    assert [one.tries for one in ledger.notices(job.id)] == [2]


def test_stuck_late_and_preempted_jobs_are_told_of_once_an_attempt(
    ledger: Ledger, clock: Clock, received: Received, config: NotifyConfig
) -> None:
    url = f"http://127.0.0.1:{received.http}"
    config.stuck = 100.0
    notifier = Notifier(ledger, config, "")
    looked(notifier, clock)
    job = started(ledger, f"{url}/a")
    assert looked(notifier, clock, 40) == 0
    assert [looked(notifier, clock, CHECK_EVERY) for _ in range(3)] == [1, 0, 0]  # 50 s were promised
    job = ledger.change(job, State.YIELDING, "scheduler", "asked to make room for j-7")
    job = ledger.end(job, State.WAITING, "yielded", "preemption", "made room", 75)
    assert looked(notifier, clock) == 1
    assert [looked(notifier, clock, 101), looked(notifier, clock, CHECK_EVERY)] == [1, 0]
    assert [one.event for one in ledger.notices(job.id)] == ["forecast", "preempted", "stuck"]
    texts = [json.loads(body)["data"]["text"] for _, _, body in received.posts]
    assert "at most 50 s were expected" in texts[0]
    assert "makes room: asked to make room for j-7" in texts[1]
    config.events = ["failed"]
    ledger.change(ledger.job(job.id), State.STOPPED, "anna", "")
    ended(ledger, started(ledger, f"{url}/b"), State.SUCCEEDED, "succeeded")
    assert looked(notifier, clock) == 0


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("anna@example.org", "write https://HOST/PATH"),
        ("mailto:anna", "no mail address"),
        ("mailto:a@b.org\nBcc: c@d.org", "no mail address"),
        ("https://user:word@example.org/", "write https://HOST/PATH"),
        ("ftp://example.org/a", "write https://HOST/PATH"),
        ("http://example.org/a", "only https; service.notify.hosts"),
        ("slack:http://example.org/a", "only https"),
    ],
)
def test_targets_that_cannot_be_told_are_refused(config: NotifyConfig, target: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_target(target, config)
    config.owners = {"anna": [target]}
    with pytest.raises(UserError, match=r"service\.notify\.owners\.anna"):
        check_settings(config)


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "::ffff:10.0.0.1", "0.0.0.0"])
def test_a_name_that_leads_to_a_private_host_is_not_asked(
    config: NotifyConfig, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [(2, 1, 6, "", ("93.184.215.14", 443)), (2, 1, 6, "", (address, 443))]
    monkeypatch.setattr(targets.socket, "getaddrinfo", lambda *_, **__: found)  # type: ignore[attr-defined]
    message = targets.Message("msg_1", "", "", "", {})
    with pytest.raises(RefusedError, match=r"private host|metadata"):
        targets.send("https://example.org/a", message, config)


def test_a_server_that_does_not_answer_is_tried_again(config: NotifyConfig, received: Received) -> None:
    message = targets.Message("msg_1", "", "", "", {})
    with pytest.raises(ServiceError, match="no answer"):
        targets.send("http://127.0.0.1:9/a", message, config)
    config.mail.server = "127.0.0.1:9"
    with pytest.raises(ServiceError, match="the mail server"):
        targets.send("mailto:anna@example.org", message, config)


def test_a_target_is_shown_without_what_opens_it() -> None:
    assert shown("slack:https://hooks.slack.com/services/T0/B0/key") == "slack:https://hooks.slack.com"
    assert shown("https://example.org/key?token=x") == "https://example.org"
    assert shown("mailto:anna@example.org") == "mailto:anna@example.org"


def test_a_weak_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("whsec_c2hvcnQ=")
    with pytest.raises(UserError, match="5 bytes; at least 24"):
        check_settings(NotifyConfig(secret=str(tmp_path / "key")))
    with pytest.raises(UserError, match=r"service\.notify\.mail\.server=here"):
        check_settings(NotifyConfig(mail=MailConfig(server="here")))
