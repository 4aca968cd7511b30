"""The commands that let this command line in, and out again."""

import json
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dragoman.conf import compose, showing
from dragoman.model.errors import ServiceError, UserError
from dragoman.model.files import atomic_write
from dragoman.services.jobs.client.client import JobClient


def path_of(home: str | Path) -> Path:
    return Path(home) / "service" / "login.json"


def read_token(home: str | Path, address: str) -> str | None:
    """Returns the token for the service at `address`, and for no other; None if there is none."""
    return _read(path_of(home)).get(address.rstrip("/"))


def save_token(home: str | Path, address: str, token: str | None) -> None:
    """Stores the token for a service, for this user alone; None removes it."""
    path = path_of(home)
    tokens = {key: value for key, value in _read(path).items() if key != address.rstrip("/")}
    if token is not None:
        tokens[address.rstrip("/")] = token
    path.parent.mkdir(parents=True, exist_ok=True)
    before = os.umask(0o077)
    try:
        atomic_write(path, json.dumps(tokens))
    finally:
        os.umask(before)


def _read(path: Path) -> dict[str, str]:
    try:
        tokens = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return tokens if isinstance(tokens, dict) else {}


logger = logging.getLogger(__name__)
Home = str | Path


def login(service: JobClient, home: Home, words: Sequence[str]) -> int:
    """Shows a code to type on a page, and keeps the token that the service gives then."""
    _check_nothing("login", words)
    login_begun = service.begin_login()
    logger.info("open %s and type this code there: %s", login_begun["page"], login_begun["code"])
    deadline = time.monotonic() + login_begun["seconds"]
    while (token := service.finish_login(login_begun["secret"])) is None:
        if time.monotonic() > deadline:
            raise ServiceError("nobody typed the code; run dragoman login again")
        time.sleep(login_begun["pause"])
    save_token(home, service.address, token)
    with JobClient(service.address, token) as signed_in:
        me = signed_in.me()
    showing.show([me], lambda: f"signed in as {me['owner']} ({me['role']}); the token is in {path_of(home)}")
    return compose.OK


def logout(service: JobClient, home: Home, words: Sequence[str]) -> int:
    """Ends the token of `dragoman login` and forgets it."""
    _check_nothing("logout", words)
    try:
        name = service.me()["token"]
        if name is not None:
            service.revoke_mine(name)
    except UserError as problem:  # it has ended already
        logger.info("%s", problem)
    save_token(home, service.address, None)
    showing.show([{"service": service.address}], lambda: f"signed out of {service.address}")
    return compose.OK


def _check_nothing(verb: str, words: Sequence[str]) -> None:
    if words:
        raise UserError(f"{verb} {words[0]}: it takes no words; jobs.service=http://HOST:8300 names another service")


VERBS: dict[str, Callable[[JobClient, Home, Sequence[str]], int]] = {"login": login, "logout": logout}
