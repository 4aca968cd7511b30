"""Allows one training of a run at a time: a lock in its directory, which the system releases when its process ends.

RUN/lock is locked by flock, so a killed holder leaves nothing behind. Its content serves only the message.
"""

import contextlib
import json
import logging
import os
import socket
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from dragoman.model.errors import UserError
from dragoman.model.files import exclusive, is_locked
from dragoman.model.runs.paths import LOCK

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def hold_run(run: Path, name: str) -> Iterator[None]:
    """Reserves the run for this process within the block.

    A folder without locks (some mounted ones) is used without one, with a warning.
    """
    path = run / LOCK
    with contextlib.ExitStack() as stack:
        try:
            if not stack.enter_context(exclusive(path)):
                raise UserError(
                    f"name={name}: this run is being trained already, by {_holder(path)}. Wait for it or stop it to go "
                    f"on with the run, or choose another name="
                )
        except OSError as problem:
            logger.warning(f"{run}: cannot be locked ({problem.strerror}); nothing keeps a second training of it away")
        since = datetime.now().astimezone().isoformat(" ", "seconds")
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
        path.write_text(json.dumps(holder), encoding="utf-8")  # in place: another file would not be the locked one
        yield


def is_held(run: Path) -> bool:
    """Returns True while a process trains the run."""
    return is_locked(run / LOCK)


def _holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        return f"process {holder['pid']} on {holder['host']} since {holder['since']}"
    except (ValueError, KeyError):  # it has locked the file but not written to it yet
        return "a process that has just been started"
