"""What an embedded Ray starts for each worker: a few lines that ask for a fork of a process with everything imported.

Ray's own program in its place imports Ray to begin with, and torch, Ray Train and our modules after that: some five
seconds of a core for every worker. `forked_workers.py` has them imported once. Where it does not answer, or the worker
wants another Python or a container, this process becomes what Ray would have started.

Nothing is imported here but what a Python has loaded already, or nearly.
"""

import json
import os
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

PLACE = "DRAGOMAN_WORKERS"  # the environment's variable with the socket's path
CONTEXT, LANGUAGE = "--serialized-runtime-env-context=", "--language="
LENGTH = struct.Struct("!I")  # before the request; and the answer, an exit code


def main(words: Sequence[str]) -> NoReturn:
    """Ends as the worker does. `words`: the worker's program, its arguments, and two that are for Ray's own program."""
    request = plain_request(words)
    server = None if request is None else connect()
    if request is None or server is None:
        own = Path(words[0]).with_name("setup_worker.py")
        os.execv(sys.executable, [sys.executable, str(own), *words])
    with server:
        body = json.dumps(request).encode()
        socket.send_fds(server, [LENGTH.pack(len(body))], [0, 1, 2])
        server.sendall(body)
        answer = server.recv(LENGTH.size, socket.MSG_WAITALL)  # for as long as the worker lives
    sys.exit(LENGTH.unpack(answer)[0] if answer else 1)


def connect() -> socket.socket | None:
    """To whoever forks workers; None: nobody does."""
    server = socket.socket(socket.AF_UNIX)
    try:
        server.connect(os.environ[PLACE])
    except (KeyError, OSError):
        server.close()
        return None
    return server


def plain_request(words: Sequence[str]) -> dict[str, Any] | None:
    """The worker's program, environment and folder; None where it needs more than some variables."""
    context: dict[str, Any] = {}
    for word in words:
        if word.startswith(CONTEXT):
            context = json.loads(word.removeprefix(CONTEXT) or "{}")
        if word.startswith(LANGUAGE) and word != f"{LANGUAGE}PYTHON":
            return None
    variables = context.pop("env_vars", {})
    if context.pop("py_executable", sys.executable) != sys.executable or any(context.values()):
        return None
    return {
        "words": [word for word in words if not word.startswith((CONTEXT, LANGUAGE))],
        "environment": {**os.environ, **variables},
        "folder": str(Path.cwd()),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
