"""A Ray of our own: on the loopback interface alone, on free ports, behind a token that nobody else has.

Whoever reaches a Ray cluster runs what they like on it, so one that lasts as long as a command must be out of reach of
other machines and of other users of this one.
"""

import atexit
import contextlib
import functools
import json
import logging
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from conf.interrupts import held_signals
from pipelines.cluster import worker_program
from pipelines.cluster.forked_workers import import_modules, serve_forks
from pipelines.cluster.ray_node import read_environment

OBJECT_STORE = 256 * 2**20  # bytes of shared memory
END_TIMEOUT = 20.0  # seconds for Ray's processes to end
SOCKET_PATH = 108  # bytes that the path of a Unix socket may have on Linux, its end included
TOKEN = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
_begun: "list[subprocess.Popen[str]]" = []


def quiet_environment() -> None:
    """Settings that every Ray process of ours inherits: no usage reports, no print patching, colour-free logs."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_TRAIN_ENABLE_PRINT_PATCH", "0")
    os.environ.setdefault("RAY_COLOR_PREFIX", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    # Embedded, the driver's own environment is the workers' environment: no per-task virtual environments.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    # We connect ourselves: a thread of Ray that goes on for a moment after its end must not start another one.
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
    # Ray will stop clearing CUDA_VISIBLE_DEVICES on workers without a GPU and warns until told which way to go.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")


@contextlib.contextmanager
def begin_ray(device: str, modules: Sequence[str] = ()) -> Iterator[None]:
    """A block at whose beginning Ray is started: `start_ray` in it has nothing, or less, to wait for.

    `modules` are what workers need besides Ray. They are imported here while Ray starts, and workers are forks that
    have them; this process must have no threads. At the block's end, or with this process, everything is ended.
    """
    before = _own_environment()
    with contextlib.ExitStack() as stack:
        stack.callback(_restore, before)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dragoman-ray-")))  # mode 700
        place = folder / "workers" if modules and can_fork(folder / "workers") else None
        node = stack.enter_context(_node(device, place))
        if place is not None:
            pipes = [pipe.fileno() for pipe in (node.stdin, node.stdout) if pipe is not None]
            import_modules(modules)
            stack.enter_context(serve_forks(place, pipes))
        _begun.append(node)
        stack.callback(_begun.clear)
        yield


def can_fork(place: Path) -> bool:
    """Whether workers can be forks of this process, to be had at `place`: not where Ray is loaded already."""
    return sys.platform == "linux" and "ray" not in sys.modules and len(os.fsencode(place)) < SOCKET_PATH


def is_begun() -> bool:
    """Whether `begin_ray` has begun one that nobody has asked for yet."""
    return bool(_begun)


@contextlib.contextmanager
def start_ray(device: str) -> Iterator[None]:
    """Ray with a slot for each core for the length of the block; the one that `begin_ray` began, where it did.

    The environment names its token, so that every process of it knows it; afterwards the user's own is back.
    """
    before = _own_environment()
    import ray

    with contextlib.ExitStack() as stack:
        stack.callback(_restore, before)
        node = _begun.pop() if _begun else stack.enter_context(_node(device, None))
        address = node.stdout.readline().strip() if node.stdout is not None else ""
        if not address:
            raise RuntimeError(f"Ray did not start (exit code {node.wait()})")
        read_environment()
        stack.callback(undisturbed, ray.shutdown, "Ray has ended")
        with _loopback():
            settings: dict[str, Any] = {"_node_ip_address": "127.0.0.1", "log_to_driver": False}
            undisturbed(partial(ray.init, address, logging_level=logging.ERROR, **settings), "Ray has started")
        yield


def undisturbed(work: Callable[[], object], until: str) -> None:
    """Do `work` in a thread, and hold signals until it is done: `until` that. For the start and the end of Ray.

    An exception in the middle of either ends the process with SIGSEGV. And where Ray starts in the main thread, it puts
    handlers of signals in the place of ours.
    """
    with held_signals(until), ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def _own_environment() -> dict[str, str | None]:
    quiet_environment()
    before = {name: os.environ.pop(name, None) for name in TOKEN}
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(_token_file())}
    return before


def _restore(before: dict[str, str | None]) -> None:
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


@contextlib.contextmanager
def _node(device: str, workers: Path | None) -> Iterator["subprocess.Popen[str]"]:
    """The program that keeps Ray's processes, ended with the block; `workers`: the socket where they are forked."""
    settings: dict[str, Any] = {
        # at least a slot for each of two workers, so that they run on a single core too
        "num_cpus": max(os.cpu_count() or 1, 1 if device == "cuda" else 2),
        "object_store_memory": OBJECT_STORE,
    }
    environment = dict(os.environ)
    if workers is not None:
        settings["setup_worker_path"] = str(Path(worker_program.__file__))
        # they are there when they are asked for, also where that is more than Ray's second later
        settings["_system_config"] = {"enable_worker_prestart": True, "idle_worker_killing_time_threshold_ms": 60_000}
        environment[worker_program.PLACE] = str(workers)
    words = [sys.executable, "-m", "pipelines.cluster.ray_node", json.dumps(settings)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as node:
        try:
            yield node
        finally:
            if node.stdin is not None:
                node.stdin.close()
            try:
                node.wait(END_TIMEOUT)  # killed, it would leave Ray's agents waiting for their dead head for a minute
            except subprocess.TimeoutExpired:
                node.kill()


@contextlib.contextmanager
def _loopback() -> Iterator[None]:
    """`ray.init` takes 127.0.0.1 for this machine's address in its network, where ours does not listen."""
    from ray._private import services

    theirs = services.resolve_ip_for_localhost
    services.resolve_ip_for_localhost = lambda host: host
    try:
        yield
    finally:
        services.resolve_ip_for_localhost = theirs


@functools.cache
def _token_file() -> Path:
    """A new token in a file that only this user can read. It stays until the process ends: Ray's threads may still read
    it when Ray is shut down, and end the process where it is gone."""
    handle, name = tempfile.mkstemp(prefix="dragoman-ray-token-")  # mode 600
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_hex(32))
    atexit.register(Path(name).unlink, missing_ok=True)
    return Path(name)
