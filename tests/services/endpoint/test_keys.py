"""API keys: hashed, limited, counted in the database."""

from pathlib import Path

import httpx
import pytest

from dragoman.model.errors import UserError
from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.key_store import KeyStore, StoredKey
from dragoman.services.endpoint.keys import NOBODY, Key, KeyRefusedError, Keys
from dragoman.services.http.rates import digest_of
from tests.services.endpoint.conftest import Client, Stage

NOON = 1_790_000_000.0 - 1_790_000_000.0 % 60  # the beginning of a minute of 2026-09


class Clock:
    now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def keys(store: KeyStore, clock: Clock) -> Keys:
    found = Keys(store=store, now=clock)
    found.exchange()
    return found


def check(keys: Keys, secret: str, characters: int = 0) -> Key:
    """Returns the key of a request, which is counted."""
    key = keys.admit(secret)
    keys.charge(key, characters)
    return key


def refused(keys: Keys, secret: str, characters: int = 0) -> KeyRefusedError:
    with pytest.raises(KeyRefusedError) as problem:
        check(keys, secret, characters)
    return problem.value


def test_without_keys_everybody_may_ask_and_no_file_is_made(store: KeyStore, clock: Clock, tmp_path: Path) -> None:
    assert check(keys(store, clock), "") == check(keys(store, clock), "whatever", 10**9) == NOBODY
    assert not list(tmp_path.iterdir())


def test_a_key_is_stored_as_its_hash_and_asked_for_from_then_on(store: KeyStore, clock: Clock, tmp_path: Path) -> None:
    secret = store.add("anna")
    found = keys(store, clock)
    assert check(found, secret).name == "anna"
    assert (refused(found, "").reason, refused(found, "").status_code) == ("missing", 403)
    assert (refused(found, "x").reason, refused(found, "x").status_code) == ("unknown", 403)
    assert secret.encode() not in (tmp_path / "endpoint.db").read_bytes()
    assert (tmp_path / "endpoint.db").stat().st_mode & 0o077 == 0
    assert [one.digest for one in store.all()] == [digest_of(secret)]
    with pytest.raises(UserError, match="there is one of that name"):
        store.add("anna")


def test_a_revoked_key_is_refused_after_the_next_exchange(store: KeyStore, clock: Clock) -> None:
    secret, _ = store.add("anna"), store.add("other")
    found = keys(store, clock)
    store.revoke("anna")
    assert check(found, secret).name == "anna"
    found.exchange()
    assert refused(found, secret).reason == "unknown"
    with pytest.raises(UserError, match="there is none that is valid"):
        store.revoke("anna")


def test_once_the_only_key_is_revoked_nobody_is_let_in(store: KeyStore, clock: Clock) -> None:
    secret = store.add("anna")
    found = keys(store, clock)
    store.revoke("anna")
    found.exchange()
    assert (refused(found, "").reason, refused(found, secret).reason) == ("missing", "unknown")
    again = Keys(store=store, now=clock)  # after a restart
    again.exchange()
    assert again.needed


def test_guesses_from_one_address_are_slowed_and_lock_out_nobody_there(
    store: KeyStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.services.http.rates.time.monotonic", lambda: clock.now)
    secret, late = store.add("anna"), store.add("bert")
    found = keys(store, clock)
    found.admit(secret, "10.1.1.1")

    def status(secret: str, address: str = "10.1.1.1") -> int:
        with pytest.raises(KeyRefusedError) as refusal:
            found.admit(secret, address)
        return refusal.value.status_code

    assert [status(f"guess{number}") for number in range(61)] == [403] * 60 + [429]
    assert found.admit(secret, "10.1.1.1").name == "anna"  # it was right before
    assert status(late) == 429  # or a guess that is right would be seen at once
    assert status("guess", "10.2.2.2") == 403
    clock.now += 1.0
    assert found.admit(late, "10.1.1.1").name == "bert"


def test_characters_are_limited_by_the_month(store: KeyStore, clock: Clock) -> None:
    secret = store.add("anna", characters=100)
    found = keys(store, clock)
    key = check(found, secret, 60)
    problem = refused(found, secret, 41)
    assert (problem.reason, problem.status_code) == ("characters", 429)
    check(found, secret, 40)
    assert found.usage(key) == (100, 100)
    found.give_back(key, 40)
    assert found.usage(key) == (60, 100)
    clock.now += 31 * 86400
    check(found, secret, 100)


def test_requests_are_limited_by_the_minute(store: KeyStore, clock: Clock) -> None:
    secret = store.add("anna", requests=2)
    found = keys(store, clock)
    clock.now += 20
    check(found, secret)
    check(found, secret)
    problem = refused(found, secret)
    assert (problem.reason, problem.status_code, problem.headers) == ("requests", 429, {"Retry-After": "40"})
    clock.now += 40
    check(found, secret)


def test_processes_share_the_counts_through_the_database(store: KeyStore, clock: Clock) -> None:
    secret = store.add("anna", characters=100)
    one, other = keys(store, clock), keys(store, clock)
    check(one, secret, 50)
    check(other, secret, 30)
    for each in (one, other, one):
        each.exchange()
    assert one.usage(one.find(secret)) == other.usage(other.find(secret)) == (80, 100)
    assert refused(one, secret, 21).reason == "characters"
    (row,) = store.all()
    assert [(used.period, used.characters, used.requests) for used in store.months(row.digest)] == [("2026-09", 80, 2)]


def test_counts_are_kept_while_the_database_is_away_and_sent_later(
    store: KeyStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = store.add("anna", characters=100)
    found = keys(store, clock)
    check(found, secret, 50)
    with monkeypatch.context() as away:
        away.setattr(store, "exchange", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            found.exchange()
        check(found, secret, 20)
        assert refused(found, secret, 31).reason == "characters"
    found.exchange()
    found.exchange()
    assert found.usage(found.find(secret)) == (70, 100)


def test_the_thread_sends_what_was_counted_when_it_is_stopped(store: KeyStore, clock: Clock) -> None:
    secret = store.add("anna")
    found = Keys(store=store, now=clock)
    found.start()
    check(found, secret, 5)
    found.stop()
    assert [one.characters for one in store.months(digest_of(secret))] == [5]


def test_a_request_without_a_known_key_has_the_status_of_its_dialect(stage: Stage) -> None:
    stage.endpoint.keys = Keys(["secret"])
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        for path, field in (("/v2/translate", "message"), ("/translate", "error"), ("/invocations", "error_code")):
            answer = stage.client.post(path, json={}, headers=headers)
            assert (answer.status_code, field in answer.json()) == (403, True), path


def test_what_names_versions_and_runs_needs_a_key_or_a_monitors_address(stage: Stage, store: KeyStore) -> None:
    secret = store.add("anna")
    stage.read_keys(store)
    for path in ("/status", "/models", "/metrics"):
        assert stage.client.get(path).status_code == 403
        headers = {"Authorization": f"Bearer {secret}"}
        assert stage.client.request("GET", path, headers=headers).status_code == 200
    assert stage.client.get("/health").status_code == 200
    stage.endpoint.config.monitors = ["127.0.0.0/8"]
    assert stage.client.get("/status").status_code == 200


def test_listed_keys_have_no_limits_and_are_not_stored(store: KeyStore, clock: Clock) -> None:
    store.add("anna", characters=1)
    found = Keys(["listed"], store, clock)
    found.exchange()
    assert check(found, "listed", 10**9).name == "serve.keys"
    found.exchange()
    assert store.months(digest_of("listed")) == []
    assert isinstance(store.all()[0], StoredKey)


@pytest.mark.parametrize("url", ["nonsense", "mysql://host/name"])
def test_an_address_that_is_no_database_is_named(url: str) -> None:
    with pytest.raises(UserError, match=r"serve\.database"):
        Keys(store=KeyStore(url)).start()


def test_the_endpoint_counts_what_a_key_translates_and_not_what_fails(
    stage: Stage, store: KeyStore, clock: Clock
) -> None:
    secret = store.add("anna", characters=100, requests=5)
    stage.endpoint.keys = keys(store, clock)
    client = Client(create_app(stage.endpoint))

    def ask(**values: object) -> httpx.Response:
        return client.post("/translate", json={"source": "en", "target": "de", "api_key": secret, **values})

    assert ask(q="x" * 60).status_code == 200
    assert ask(q="Go !bad " + "x" * 30).status_code == 500
    assert ask(q="x" * 60).json() == {"error": "Quota exceeded: this API key may translate 100 characters a month"}
    assert ask(q="x" * 40).status_code == 200
    assert stage.endpoint.keys.usage(stage.endpoint.keys.find(secret)) == (100, 100)
    assert ask(q="x", api_key="").status_code == 403
    answer = client.post("/detect", json={"q": "", "api_key": secret})
    assert answer.status_code == 400
    clock.now += 60
    assert [client.post("/detect", json={"q": "x", "api_key": secret}).status_code for _ in range(2)] == [429, 429]
