"""A service in this process: its application, its client, a server over it, and one at work."""

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Any

import httpx

from dragoman.services.http.listening import bind
from dragoman.services.jobs.http.access_log import AccessLog
from dragoman.services.jobs.http.listening import serving
from dragoman.services.jobs.http.parts import ServiceParts
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.up.app import create_app
from tests.services.jobs.processes import PROCESSES

LOCAL = "http://127.0.0.1:8300"


def application(loop: Loop, keys: bool = False, **more: Any) -> AccessLog:
    return create_app(ServiceParts(loop.ledger, loop.scheduler.access, loop, loop.config, loop.home, keys, **more))


def client(loop: Loop, keys: bool = False, owner: str = "anna", token: str = "", **more: Any) -> httpx.Client:
    """A client that asks the application as an owner, or with a token."""
    from fastapi.testclient import TestClient

    headers = {"X-Dragoman-Owner": owner} | ({"Authorization": f"Bearer {token}"} if token else {})
    return TestClient(application(loop, keys, **more), base_url=LOCAL, headers=headers)


def csrf(page: str) -> str:
    """The word of a page's forms."""
    found = re.search(r'name="csrf" value="(\w+)"', page)
    assert found is not None
    return found[1]


@contextlib.contextmanager
def listening(loop: Loop, keys: bool = False, port: int = 0, **more: Any) -> Iterator[int]:
    """The port of a server over the loop."""
    opened = bind("127.0.0.1", port, "service")
    with serving(application(loop, keys, **more), opened, loop.config):
        yield opened.getsockname()[1]


@contextlib.contextmanager
def at_work(loop: Loop) -> Iterator[int]:
    """The port of a server over the loop, which runs."""
    try:
        with listening(loop) as port:
            loop.start()
            yield port
    finally:
        loop.stop()
        for process in PROCESSES:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, 9)
        while PROCESSES:
            PROCESSES.pop().wait(60)
        loop.ledger.database.close()
