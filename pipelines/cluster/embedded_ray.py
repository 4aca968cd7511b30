"""A Ray of our own: only on the loopback interface, on free ports, behind a token that nobody else has.

Whoever reaches a Ray cluster can run anything on it, so one that lasts as long as a command must be out of reach of
other machines and of other users of this one.
"""

import atexit
import contextlib
import functools
import logging
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from dragoman.conf.interrupts import held_signals
from dragoman.model.environment import restore_environment
from dragoman.model.errors import ServiceError, UserError
from dragoman.model.ports import free_ports
from dragoman.pipelines.settings import ClusterConfig

END_TIMEOUT = 30.0  # seconds for Ray's processes to end
MOST_PATIENCE = 5.0  # times cluster.start_timeout, on a machine with that many processes at work per core, or more
TOKEN = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
# Ray reads both on import. Without the second it takes 127.0.0.1 for this machine's address in its network.
AT_IMPORT = {"RAY_AUTH_MODE": "token", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
# Ray's ports of metrics require no token. -1 is no port: Ray logs that and continues.
NO_METRICS = {"RAY_enable_metrics_collection": "0", "AUTOSCALER_METRIC_PORT": "-1", "DASHBOARD_METRIC_PORT": "-1"}


class StartError(ServiceError):
    """A Ray of our own has not started; the message says what to set."""


class _Head:
    """The program that keeps Ray's processes, and its address."""

    def __init__(self, config: ClusterConfig) -> None:
        # at least a slot for each of two workers, so that they run on a single core too
        cpus = max(os.cpu_count() or 1, 1 if config.device == "cuda" else 2)
        check_room(config, "CPU", cpus, "this machine")
        (port,) = free_ports(1)
        self.address = f"127.0.0.1:{port}"
        self.patience = patience(config.start_timeout)
        environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"} | NO_METRICS
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dragoman.pipelines.cluster.ray_head", self.address, str(cpus), str(self.patience)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,  # Ctrl-C at the terminal is for the command
        )

    def wait(self) -> None:
        """Returns when the head is up."""
        assert self.process.stdout is not None and self.process.stderr is not None
        if not self.process.stdout.readline():
            raise StartError(
                f"Ray did not start, with {os.getloadavg()[0]:.0f} processes at work on {os.cpu_count()} cores "
                f"({self.process.stderr.read().strip()}). cluster.start_timeout=SECONDS gives it longer than "
                f"{self.patience:.0f} s, cluster.backend=local trains without Ray"
            )

    def end(self) -> None:
        try:
            self.process.communicate(timeout=END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()


def patience(start_timeout: float) -> float:
    """Returns the seconds that Ray may take to start on this machine with its present load."""
    per_core = os.getloadavg()[0] / (os.cpu_count() or 1)  # processes at work, the mean of the last minute
    return start_timeout * min(max(per_core, 1.0), MOST_PATIENCE)


def check_room(config: ClusterConfig, resource: str, there: float, place: str = "the cluster") -> None:
    """Refuses at once a request that would otherwise wait forever; `there`: all CPUs or GPUs of `place`."""
    needed = config.least * (config.cpus_per_worker if resource == "CPU" else config.gpus_per_worker)
    if needed > there:
        raise UserError(
            f"cluster.workers={config.workers}: needs {needed:g} {resource}s, {place} has {there:g}. "
            f"Ask for fewer workers, or {'join more nodes to it' if config.address else 'name a cluster that has them'}"
        )


_begun: list[_Head] = []
_imported_as_needed = False  # by us, with the variables of AT_IMPORT


def quiet_environment() -> None:
    """Sets what every Ray process of ours inherits: no usage reports, no print patching, colour-free logs."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_TRAIN_ENABLE_PRINT_PATCH", "0")
    os.environ.setdefault("RAY_COLOR_PREFIX", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    # Embedded, the driver's own environment is the workers' environment: no per-task virtual environments.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    # We connect ourselves: a Ray thread that continues for a moment after its end must not start another one.
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
    # Ray will stop clearing CUDA_VISIBLE_DEVICES on workers without a GPU and warns until told what to do.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")


@contextlib.contextmanager
def begin_ray(config: ClusterConfig) -> Iterator[None]:
    """Starts Ray at the beginning of the block: `start_ray` in it then waits little or not at all.

    At the block's end, or with this process, everything is ended.

    Raises UserError: the workers need more CPUs than this machine has.
    """
    with _own_environment(), _kept_head(config, last=True) as head:
        _begun.append(head)
        try:
            yield
        finally:
            _begun.clear()


def is_begun() -> bool:
    """Returns True if `begin_ray` has begun a Ray that nobody has used yet."""
    return bool(_begun)


@contextlib.contextmanager
def start_ray(config: ClusterConfig) -> Iterator[None]:
    """Provides Ray with a slot per core within the block; takes the one that `begin_ray` began, if any.

    The environment has its token, so that all its processes know it; afterwards the user's own is restored.
    """
    with _own_environment(), contextlib.ExitStack() as stack:
        head = _begun.pop() if _begun else stack.enter_context(_kept_head(config))
        import ray

        head.wait()
        stack.callback(undisturbed, ray.shutdown, "Ray has ended")
        connect = partial(ray.init, head.address, logging_level=logging.ERROR, log_to_driver=False)
        undisturbed(connect, "Ray has started")
        yield


def undisturbed(work: Callable[[], object], until: str, done: bool = False) -> None:
    """Runs `work` in a thread and holds signals until it has ended; see `held_signals`. For Ray's start and end.

    An exception in the middle of either ends the process with SIGSEGV. And a Ray started in the main thread replaces
    our signal handlers.
    """
    with held_signals(until, done), ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


@contextlib.contextmanager
def _own_environment() -> Iterator[None]:
    """Sets the variables of an embedded Ray within the block."""
    global _imported_as_needed
    loaded = "ray" in sys.modules and not _imported_as_needed
    if loaded and any(os.environ.get(name) != value for name, value in AT_IMPORT.items()):
        needed = " ".join(f"{name}={value}" for name, value in AT_IMPORT.items())
        raise UserError(
            f"cluster.address: this process imported ray before, without the variables that keep a Ray of our own on "
            f"this machine. Set {needed} before `import ray`, or take cluster.backend=local"
        )
    _imported_as_needed = True
    quiet_environment()
    with restore_environment(*TOKEN, *AT_IMPORT):
        for name in TOKEN:
            os.environ.pop(name, None)
        os.environ |= {**AT_IMPORT, "RAY_AUTH_TOKEN_PATH": str(_token_file())}
        yield


@contextlib.contextmanager
def _kept_head(config: ClusterConfig, last: bool = False) -> Iterator[_Head]:
    """Keeps a head within the block; `last`: no work follows the block, so a signal then interrupts nothing."""
    head = _Head(config)
    done = False
    try:
        yield head
        done = last
    finally:
        undisturbed(head.end, "Ray's processes have ended", done)


@functools.cache
def _token_file() -> Path:
    """Returns a new token in a file that only this user can read. It stays until the process ends: Ray's threads may
    still read it when Ray is shut down, and end the process if it is gone."""
    handle, name = tempfile.mkstemp(prefix="dragoman-ray-token-")  # mode 600
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_hex(32))
    atexit.register(Path(name).unlink, missing_ok=True)
    return Path(name)
