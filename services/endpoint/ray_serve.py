"""The endpoint on a Ray cluster (`serve.cluster`): the same application, as the replicas of a Ray Serve deployment.

Each replica has its own models, queue and followers; keys, glossaries and known translations are those of the database
that all of them open. Ray's proxies take the connections on every node and choose a replica.
"""

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray
from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.conf import compose
from dragoman.conf.interrupts import handled_by
from dragoman.model.alignment.attention_map import AlignmentConfig
from dragoman.model.errors import ServiceError, UserError, reason
from dragoman.model.ports import free_ports
from dragoman.model.settings import DecodeConfig
from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.opening import open_endpoint, print_address
from dragoman.services.http.proxies import Proxies, networks
from dragoman.services.settings import ServeConfig

NAME = "dragoman"  # of the application in Ray Serve


@dataclass
class Plan:
    """The settings that every replica opens."""

    config: ServeConfig
    decode: DecodeConfig
    overrides: Sequence[str]
    alignment: AlignmentConfig | None
    folder: str  # that relative paths mean

    def build(self) -> ASGIApp:
        """Returns the application, with its models loaded.

        Raises UserError: as `serve`, or this node has not the folder.
        """
        try:
            os.chdir(self.folder)
        except OSError as problem:
            raise UserError(
                f"{self.folder}: every node of the cluster needs this folder ({problem.strerror})"
            ) from None
        stack = contextlib.ExitStack()
        opened = open_endpoint(self.config, self.decode, self.overrides, self.alignment)
        endpoint, documents = stack.enter_context(opened)
        app = create_app(endpoint, documents)
        proxies = networks("serve.proxies", self.config.proxies)
        return Lasting(Proxies(app, proxies) if proxies else app, stack.close)


@dataclass
class Lasting:
    """An application whose threads end with its lifespan; they have begun before."""

    app: ASGIApp
    end: Callable[[], None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self.app(scope, receive, send)
            return
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.to_thread(self.end)
        await send({"type": "lifespan.shutdown.complete"})


def deploy(
    config: ServeConfig, decode: DecodeConfig, overrides: Sequence[str], alignment: AlignmentConfig | None
) -> int:
    """Deploys the endpoint and prints its address once all replicas answer; removes it at a signal.

    Raises:
        UserError: Ray Serve is not installed, or a replica cannot be made of the settings.
        ServiceError: the cluster does not answer.
    """
    serve = _ray_serve()
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    ended = threading.Event()
    port = config.port or free_ports(1)[0]
    plan = Plan(config if config.threads else replace(config, threads=1), decode, overrides, alignment, str(Path.cwd()))
    with connected(config.cluster or "auto"), handled_by(lambda *_: ended.set(), signal.SIGTERM):
        quiet = {"enable_access_log": False}  # Ray's lines hold paths, and so words that a user sent
        http = {"host": config.host, "port": port, "location": "EveryNode"}
        alone = {"runtime_env": {"env_vars": {"FORWARDED_ALLOW_IPS": ""}}}  # uvicorn's: serve.proxies alone says it
        serve.start(http_options=http, logging_config=quiet, controller_options=alone)
        application = _application(serve, plan, quiet)
        try:
            serve.run(application, name=NAME, route_prefix="/")
            print_address(config.host, port)
            ended.wait()
        except RuntimeError as problem:
            raise UserError(f"serve.cluster={config.cluster}: {_cause(serve, problem)}") from None
        finally:
            serve.delete(NAME)
            if not serve.status().applications:  # nobody else's are left
                serve.shutdown()
    return compose.OK


@contextlib.contextmanager
def connected(cluster: str) -> Iterator[None]:
    """Connects to a Ray cluster during the block. Raises ServiceError: it does not answer."""
    try:
        ray.init(cluster, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError) as problem:
        raise ServiceError(f"serve.cluster={cluster}: no Ray cluster answers ({reason(problem)})") from None
    try:
        yield
    finally:
        ray.shutdown()


def _ray_serve() -> Any:
    try:
        from ray import serve
    except ImportError as problem:
        raise UserError(
            f"serve.cluster: Ray Serve is not installed ({problem}); pip install 'dragoman[ray-serve]', on every node"
        ) from None
    return serve


def _application(serve: Any, plan: Plan, quiet: dict[str, Any]) -> Any:
    """Returns the deployment of the plan. A replica takes as many requests at once as connections, for its batches."""

    def build() -> ASGIApp:
        return plan.build()

    deployment = serve.deployment(serve.ingress(build)()).options(
        name="endpoint",
        num_replicas=plan.config.replicas,
        max_ongoing_requests=plan.config.connections,
        max_constructor_retry_count=1,  # what is wrong with the settings is wrong the next time too
        graceful_shutdown_timeout_s=plan.config.stop_timeout,
        ray_actor_options={
            "num_cpus": plan.config.threads,
            "num_gpus": 1 if plan.config.device == "cuda" else 0,
        },
        logging_config=quiet,
    )
    return deployment.bind()


def _cause(serve: Any, problem: Exception) -> str:
    """Returns why the replicas do not start, as the last of them says."""
    application = serve.status().applications.get(NAME)
    messages = [deployment.message for deployment in application.deployments.values()] if application else []
    lines = (line for text in messages for line in reversed(text.splitlines()) if "Error: " in line)
    return next(lines, reason(problem)).rpartition("Error: ")[2]
