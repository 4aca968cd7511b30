"""Ray's workers as forks of one process that has imported what they all need: torch and our own modules.

The process is forked from the driver while that has no thread and has computed nothing: no lock is held, no pool of
threads is lost and no GPU is open. It does nothing but fork, so that holds for each worker too. Ray itself is loaded in
each worker anew: its compiled part draws random names from a state that forks would share, and two workers that store
an object of one name wait for each other for ever. What Ray starts for a worker (`worker_program.py`) stays for as long
as the worker lives, and the one ends with the other.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pipelines.cluster.worker_program import LENGTH


def import_modules(names: Iterable[str]) -> None:
    """Import what workers will have; not Ray.

    Raises:
        RuntimeError: Ray has come with them.
    """
    for name in names:
        importlib.import_module(name)
    if "ray" in sys.modules:
        raise RuntimeError(f"workers load Ray themselves, but one of {', '.join(names)} has imported it")


@contextlib.contextmanager
def serve_forks(place: Path, to_close: Iterable[int] = ()) -> Iterator[None]:
    """Workers are to be had at the socket `place` for the length of the block; afterwards they are gone.

    This process must have no threads. `to_close`: files that workers must not hold open.
    """
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads: those of BLAS end before a fork
            pid = os.fork()
        if pid == 0:
            _serve(listener, theirs, [ours.fileno(), *to_close])
    theirs.close()
    try:
        yield
    finally:
        ours.close()
        os.waitpid(pid, 0)


@dataclass(frozen=True)
class _Worker:
    pid: int
    ended: int  # a descriptor that can be read when it has
    asked: socket.socket  # by whom; closed when that process is gone


def _serve(listener: socket.socket, driver: socket.socket, to_close: Iterable[int]) -> NoReturn:
    """Fork a worker for each who asks, until the driver is gone."""
    try:  # nothing may leave this function: below are the driver's own frames
        for file in to_close:
            os.close(file)
        gc.freeze()  # a collection in a worker would copy every page that it looks at
        os.setpgid(0, 0)  # an interrupt from the terminal is for the driver
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        selector = selectors.DefaultSelector()
        selector.register(listener, selectors.EVENT_READ)
        selector.register(driver, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is driver:
                    _end_all(selector)
                elif key.fileobj is listener:
                    _start(listener, selector)
                elif key.fileobj is key.data.asked:
                    os.kill(key.data.pid, signal.SIGKILL)
                    selector.unregister(key.data.asked)
                else:
                    _answer(key.data, selector)
    finally:
        os._exit(1)


def _start(listener: socket.socket, selector: selectors.BaseSelector) -> None:
    asked, _ = listener.accept()
    try:
        head, files, _, _ = socket.recv_fds(asked, LENGTH.size, 3)
        with asked.makefile("rb") as stream:
            request = json.loads(stream.read(LENGTH.unpack(head)[0]))
    except (OSError, ValueError, struct.error):  # it was ended while it asked
        asked.close()
        return
    pid = os.fork()
    if pid == 0:
        _become(request, files, [*selector.get_map().values()])
    for file in files:
        os.close(file)
    worker = _Worker(pid, os.pidfd_open(pid), asked)
    selector.register(asked, selectors.EVENT_READ, worker)
    selector.register(worker.ended, selectors.EVENT_READ, worker)


def _answer(worker: _Worker, selector: selectors.BaseSelector) -> None:
    """Whoever asked for the worker ends as it did."""
    _, status = os.waitpid(worker.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    with contextlib.suppress(OSError, KeyError):
        selector.unregister(worker.asked)
        worker.asked.sendall(LENGTH.pack(code if code >= 0 else 128 - code))
    worker.asked.close()
    selector.unregister(worker.ended)
    os.close(worker.ended)


def _end_all(selector: selectors.BaseSelector) -> NoReturn:
    for key in selector.get_map().values():
        if key.data is not None and key.fileobj == key.data.ended:
            os.kill(key.data.pid, signal.SIGKILL)
    os._exit(0)


def _become(request: dict[str, Any], files: Sequence[int], inherited: Iterable[selectors.SelectorKey]) -> NoReturn:
    """Be the worker that was asked for, as if it had been started by itself."""
    code = 1
    try:
        for key in inherited:
            os.close(key.fd)
        for own, given in enumerate(files):
            os.dup2(given, own)
            os.close(given)
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        atexit._clear()  # the driver's
        sys.argv = request["words"]
        runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
