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
from pathlib import Path
from typing import Any

BARE = {"node_ip_address": "127.0.0.1", "no_monitor": True, "include_log_monitor": False}


@contextlib.contextmanager
def start_ray(cpus: int, object_store: int) -> Iterator[None]:
    """Ray with `cpus` slots and `object_store` bytes of shared memory, for the length of the block.

    The environment names its token, so that every process of it knows it; afterwards the user's own is back.
    """
    before = {name: os.environ.pop(name, None) for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")}
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(_token_file())}
    try:
        import ray

        _read_environment()
        with _bare():
            ray.init(
                "local",  # never the cluster that RAY_ADDRESS names
                num_cpus=cpus,
                object_store_memory=object_store,
                include_dashboard=False,
                logging_level=logging.ERROR,
                log_to_driver=False,
            )
        yield
    finally:
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
