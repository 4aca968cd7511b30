"""The commands that let this command line in, and out again."""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dragoman.conf import compose, showing
from dragoman.model.errors import ServiceError, UserError
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.client.saved import path_of, save_token

logger = logging.getLogger(__name__)
Home = str | Path


def login(service: JobClient, home: Home, words: Sequence[str]) -> int:
    """Shows a code to type on a page, and keeps the token that the service gives then."""
    _check_nothing("login", words)
    asked = service.begin_login()
    logger.info("open %s and type this code there: %s", asked["page"], asked["code"])
    deadline = time.monotonic() + asked["seconds"]
    while (token := service.finish_login(asked["secret"])) is None:
        if time.monotonic() > deadline:
            raise ServiceError("nobody typed the code; run dragoman login again")
        time.sleep(asked["pause"])
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
