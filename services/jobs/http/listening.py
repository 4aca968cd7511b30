"""Runs the service's application behind a socket, in its own thread."""

import contextlib
import logging
import socket
import sys
import threading
import time
from collections.abc import Iterator

from starlette.types import ASGIApp

from dragoman.model.errors import ServiceError
from dragoman.services.http.listening import Server
from dragoman.services.jobs.settings import ServiceConfig

START_TIMEOUT = 60.0  # seconds until it accepts requests
GRACE = 2  # seconds for requests to end
# Seconds until a computing thread lets another run. A request waits for its turn after each of its queries to the
# ledger; beside the scheduler's passes, each turn would cost the interpreter's usual 5 ms.
TURN = 0.0005
logger = logging.getLogger(__name__)


@contextlib.contextmanager
def serving(
    app: ASGIApp,
    listening: socket.socket,
    config: ServiceConfig,
) -> Iterator[None]:
    """Serves within the block."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(TURN)
    server = Server(
        app,
        listening,
        connections=config.connections,
        per_address=config.per_address,
        grace=GRACE,
        header=config.receive_timeout,
        proxies=config.proxies,
    )
    thread = threading.Thread(target=server.serve_requests, name="http", daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + START_TIMEOUT
        while not server.started:
            if not thread.is_alive() or time.monotonic() > deadline:
                raise ServiceError("the HTTP server does not begin")
            time.sleep(0.02)
        yield
    finally:
        sys.setswitchinterval(before)
        server.should_exit = True
        thread.join(10)
        if thread.is_alive():
            logger.warning("requests go on after the end")
