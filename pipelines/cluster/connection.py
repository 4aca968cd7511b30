"""Connects to Ray, embedded or at an address; loads neither it nor torch before."""

import contextlib
import functools
import logging
import sys
from collections.abc import Iterator
from dataclasses import replace

from dragoman.model.errors import ServiceError, UserError
from dragoman.pipelines.cluster import embedded_ray
from dragoman.pipelines.settings import ClusterConfig

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def connect_ray(config: ClusterConfig) -> Iterator[None]:
    """Connects to Ray, embedded or at `config.address`, within the block; an existing connection stays."""
    embedded_ray.quiet_environment()
    if is_connected() and not embedded_ray.is_begun():
        check_capacity(config)
        yield
        return
    if config.address is None:
        logger.info("starting Ray")
        with embedded_ray.start_ray(config):
            check_capacity(config)
            yield
        return
    logger.info(f"connecting to Ray at {config.address}")
    import ray

    try:
        start = functools.partial(ray.init, config.address, logging_level=logging.ERROR, log_to_driver=False)
        embedded_ray.undisturbed(start, "Ray answers")
    except (ConnectionError, TimeoutError) as problem:
        raise ServiceError(f"cluster.address: no Ray cluster answers at {config.address!r} ({problem})") from problem
    except ray.exceptions.AuthenticationError as problem:
        raise UserError(
            f"cluster.address: the Ray cluster at {config.address!r} refuses us. Its token is expected in the variable "
            f"RAY_AUTH_TOKEN or in the file that RAY_AUTH_TOKEN_PATH names"
        ) from problem
    try:
        check_capacity(config)
        yield
    finally:
        embedded_ray.undisturbed(ray.shutdown, "Ray has let go")


@contextlib.contextmanager
def connect(config: ClusterConfig) -> Iterator[ClusterConfig]:
    """Connects to Ray within the block, if `config.backend` is not local; yields the settings with the backend in use.

    Where the backend is auto, this process replaces a Ray of our own that does not start.

    Raises UserError, StartError: as `connect_ray`.
    """
    with contextlib.ExitStack() as stack:
        try:
            if config.backend != "local":
                stack.enter_context(connect_ray(config))
        except embedded_ray.StartError as problem:
            if config.backend == "ray":
                raise
            logger.warning(
                f"{problem}. Continues without Ray, in this process on all cores; a training keeps its lanes, so it "
                f"sees the same batches. cluster.backend=ray makes this an error"
            )
            config = replace(config, backend="local")
        yield config


def is_connected() -> bool:
    """Returns True if this process is connected to a Ray, without importing it."""
    return "ray" in sys.modules and sys.modules["ray"].is_initialized()


def check_capacity(config: ClusterConfig) -> None:
    """Refuses at once a request that would otherwise wait forever."""
    import ray

    total = ray.cluster_resources()
    for resource in ("GPU", "CPU") if config.device == "cuda" else ("CPU",):
        embedded_ray.check_room(config, resource, total.get(resource, 0.0))
