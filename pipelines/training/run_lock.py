"""One training of a run at a time: a lock in its directory, which the system releases with the process that holds it.

RUN/lock is locked by flock, so a killed holder leaves nothing behind. What stands in it is for the message alone.
"""

import contextlib
import errno
import fcntl
import json
import logging
import os
import socket
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from model.errors import UserError

NAME = "lock"
TAKEN = (errno.EAGAIN, errno.EACCES)
logger = logging.getLogger(__name__)


@contextlib.contextmanager
def held(run: Path, name: str) -> Iterator[None]:
    """The run is this process's alone for the length of the block.

    A folder that knows no locks (some mounted ones) is used without, with a warning.

    Raises:
        UserError: another process holds it; names it, its machine and since when.
    """
    with (run / NAME).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            if problem.errno in TAKEN:
                raise UserError(
                    f"name={name}: this run is being trained already, by {_holder(run / NAME)}. Wait for it or stop "
                    f"it to go on with the run, or choose another name="
                ) from None
            logger.warning(f"{run}: cannot be locked ({problem.strerror}); nothing keeps a second training of it away")
        file.truncate(0)
        since = datetime.now().astimezone().isoformat(" ", "seconds")
        file.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since}))
        file.flush()
        yield


def _holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        return f"process {holder['pid']} on {holder['host']} since {holder['since']}"
    except (ValueError, KeyError):  # it has locked the file and not written into it yet
        return "a process that has just been started"
