"""An application on a port of its own, and the system's chromium."""

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI

from dragoman.services.http.listening import bind

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@contextlib.contextmanager
def serving(app: FastAPI) -> Iterator[int]:
    """The application's port."""
    with contextlib.closing(bind("127.0.0.1", 0, "service")) as listening:
        config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.02)
        try:
            yield int(listening.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(60)
