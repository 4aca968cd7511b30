"""A Ray of our own: on the loopback interface alone, on free ports, behind a token that nobody else has.

Whoever reaches a Ray cluster runs what they like on it, so one that lasts as long as a command must be out of reach of
other machines and of other users of this one.
"""

import atexit
import contextlib
import functools
import logging
import os
import secrets
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

BARE = {"node_ip_address": "127.0.0.1", "no_monitor": True, "include_log_monitor": False}
OBJECT_STORE = 256 * 2**20  # bytes of shared memory
TOKEN = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
_begun: list["Future[None]"] = []


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
def begin_ray(device: str) -> Iterator[None]:
    """A block at whose beginning Ray is started in a thread: `start_ray` in it has nothing, or less, to wait for.

    At its end Ray is shut down, if nobody else has done that.
    """
    before = _own_environment()
    with ThreadPoolExecutor(1) as pool:
        ray_is_there = pool.submit(_start, device)
        _begun.append(ray_is_there)
        try:
            yield
        finally:
            _begun.clear()
            wait([ray_is_there])
            _stop(before)


def is_begun() -> bool:
    """Whether `begin_ray` has begun one that nobody has asked for yet."""
    return bool(_begun)


@contextlib.contextmanager
def start_ray(device: str) -> Iterator[None]:
    """Ray with a slot for each core for the length of the block; the one that `begin_ray` began, where it did.

    The environment names its token, so that every process of it knows it; afterwards the user's own is back.
    """
    before = _own_environment()
    try:
        if _begun:
            _begun.pop().result()
        else:
            _start(device)
        yield
    finally:
        _stop(before)


def _own_environment() -> dict[str, str | None]:
    quiet_environment()
    before = {name: os.environ.pop(name, None) for name in TOKEN}
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(_token_file())}
    return before


def _start(device: str) -> None:
    import ray

    _read_environment()
    with _bare():
        ray.init(
            "local",  # never the cluster that RAY_ADDRESS names
            # at least a slot for each of two workers, so that they run on a single core too
            num_cpus=max(os.cpu_count() or 1, 1 if device == "cuda" else 2),
            object_store_memory=OBJECT_STORE,
            include_dashboard=False,
            logging_level=logging.ERROR,
            log_to_driver=False,
        )


def _stop(before: dict[str, str | None]) -> None:
    import ray

    ray.shutdown()
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


@functools.cache
def _token_file() -> Path:
    """A new token in a file that only this user can read. It stays until the process ends: Ray's threads may still read
    it when Ray is shut down, and end the process where it is gone."""
    handle, name = tempfile.mkstemp(prefix="dragoman-ray-token-")  # mode 600
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_hex(32))
    atexit.register(Path(name).unlink, missing_ok=True)
    return Path(name)


def _read_environment() -> None:
    """Ray reads the variables of its authentication when it is imported, and another module may have done that."""
    from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]  # compiled, without stubs

    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


@contextlib.contextmanager
def _bare() -> Iterator[None]:
    """What `ray.init` has no arguments for: the node's address, and a node without the processes that nobody asks here.

    Those are the dashboard (`ray.init` waits for it even where it is not wanted), the autoscaler, the reader of the
    workers' logs, and the agent's HTTP server: that one would take port 52365, without which a cluster of the user's on
    this machine accepts no jobs. Each is a Python of a second or two.
    """
    from ray._private import parameter, services, utils

    params = parameter.RayParams
    replaced: list[tuple[Any, str, Any]] = [
        (parameter, "RayParams", lambda **given: params(**{**given, **BARE})),
        (services, "start_api_server", lambda *_, **__: (None, None)),  # what it gives where it cannot start
        (utils, "get_dashboard_dependency_error", lambda: ImportError("not wanted")),  # the agent alone, without HTTP
    ]
    with contextlib.ExitStack() as stack:
        for module, name, ours in replaced:
            stack.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, ours)
        yield
