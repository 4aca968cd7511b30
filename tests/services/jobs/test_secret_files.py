"""Secrets by file: tokens that let in from the start, and what is refused by name."""

from pathlib import Path

import pytest

from dragoman.conf import compose
from dragoman.model.errors import UserError
from dragoman.model.files import read_secret
from dragoman.services.jobs.ledger.access import Access
from dragoman.services.jobs.ledger.ledger import Ledger
from dragoman.services.jobs.settings import UpRoot
from dragoman.services.jobs.up.secret_files import enter_tokens, secrets_of
from dragoman.services.jobs.up.subprocesses import choose_layout, endpoint, environment


def test_tokens_of_files_let_in_and_a_new_one_takes_the_old_ones_place(ledger: Ledger, tmp_path: Path) -> None:
    files = {role: str(tmp_path / role) for role in ("viewer", "admin")}
    for role in files:
        (tmp_path / role).write_text(f"{role * 10}\n")
    access = Access(ledger)
    for _ in range(2):  # a service that starts again
        enter_tokens(access, files)
    person = access.person("admin" * 10)
    assert access.issued and person and (person.owner, person.role) == ("file-admin", "admin")
    assert access.person("viewer" * 10)
    (tmp_path / "viewer").write_text("another-" * 5)
    enter_tokens(access, files)
    assert access.person("another-" * 5) and access.person("viewer" * 10) is None
    assert [token.name for token in access.tokens()] == ["file-admin", "file-viewer"]
    assert [change.reason for change in ledger.changes()] == [
        *("entered file-admin (admin)", "entered file-viewer (viewer)"),
        "entered file-viewer (viewer)",
    ]


def test_what_cannot_be_is_refused_by_name(ledger: Ledger, tmp_path: Path) -> None:
    access = Access(ledger)
    (tmp_path / "short").write_text("abc")
    (tmp_path / "empty").write_text("\n")
    for files, message in (
        ({"root": "x"}, "service.tokens.root: no role"),
        ({"admin": f"{tmp_path}/none"}, "service.tokens.admin: .* cannot be read"),
        ({"admin": f"{tmp_path}/empty"}, "holds nothing"),
        ({"admin": f"{tmp_path}/short"}, "at least 32 are needed"),
    ):
        with pytest.raises(UserError, match=message):
            enter_tokens(access, files)
    with pytest.raises(UserError, match="must be an admin's"):
        access.enter("file-viewer", "viewer", "v" * 40, "up")
    assert not access.issued
    assert read_secret("k", f"{tmp_path}/short") == "abc"


def test_the_endpoints_files_are_secrets_wherever_they_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSFILE", f"{tmp_path}/pgpass")
    words = [f"serve.database=sqlite:///{tmp_path}/e.db", f"serve.documents={tmp_path}/h", f"serve.keys={tmp_path}/k"]
    found = secrets_of(compose.typed(UpRoot, compose.values(words, UpRoot)))
    named = ("e.db", "e.db-wal", "e.db-shm", "h", "k", "pgpass")
    assert {tmp_path / name for name in named} <= set(found)
    remote = secrets_of(compose.typed(UpRoot, compose.values(["serve.database=postgresql://u@h/d"], UpRoot)))
    assert not [path for path in remote if "postgresql" in str(path)]


def test_the_password_of_the_endpoints_database_goes_to_the_endpoint_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "secret")
    config = compose.typed(UpRoot, compose.values([], UpRoot)).service
    places = choose_layout(tmp_path, config, tmp_path)
    shared = environment(places, config, tracking=True)
    assert "PGPASSWORD" not in shared
    assert endpoint(places, [], shared).environment["PGPASSWORD"] == "secret"
