"""A service at work: its loop, and a server over it."""

import contextlib
import os
from collections.abc import Iterator

from dragoman.services.http.listening import bind
from dragoman.services.jobs.http.listening import serving
from dragoman.services.jobs.http.parts import ServiceParts
from dragoman.services.jobs.service.loop import Loop
from dragoman.services.jobs.up.app import create_app
from tests.services.jobs.processes import PROCESSES


@contextlib.contextmanager
def at_work(loop: Loop) -> Iterator[int]:
    """The port of a server over the loop, which runs."""
    listening = bind("127.0.0.1", 0, "service")
    parts = ServiceParts(loop.ledger, loop.scheduler.access, loop, loop.config, loop.home, False)
    try:
        with serving(create_app(parts), listening):
            loop.start()
            yield listening.getsockname()[1]
    finally:
        loop.stop()
        for process in PROCESSES:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, 9)
        while PROCESSES:
            PROCESSES.pop().wait(10)
        loop.ledger.database.close()
