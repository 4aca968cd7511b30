"""The service's application behind a socket, in a thread of its own."""

import contextlib
import logging
import socket
import sys
import threading
import time
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI

from model.errors import ServiceError

PATIENCE = 60.0  # seconds until it takes requests
GRACE = 2  # seconds that requests have to end in
# Seconds until a thread that computes lets another go on. A request takes its turn after each of its questions to the
# ledger; beside the loop's passes, each turn would cost it the interpreter's usual 5 ms.
TURN = 0.0005
logger = logging.getLogger(__name__)


@contextlib.contextmanager
def serving(app: FastAPI, listening: socket.socket) -> Iterator[None]:
    """It answers within the block.

    Raises:
        ServiceError: it does not begin.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(TURN)
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=GRACE, backlog=2048)
    server = uvicorn.Server(config)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    thread = threading.Thread(target=server.run, args=([listening],), name="http", daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + PATIENCE
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
