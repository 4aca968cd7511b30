"""`dragoman serve`: the endpoint for translations, word vectors or both, from bundles or registry aliases."""

import contextlib
import importlib
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial

from dragoman.conf import compose
from dragoman.conf.interrupts import handled_by
from dragoman.model.alignment.attention_map import AlignmentConfig
from dragoman.model.errors import UserError
from dragoman.model.memory import keep_freed_memory
from dragoman.model.ranges import check_ranges
from dragoman.model.settings import DecodeConfig
from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.opening import open_endpoint, print_address, read_keys
from dragoman.services.http.listening import Server, bind, reserve_descriptors
from dragoman.services.http.proxies import networks
from dragoman.services.settings import ServeConfig
from dragoman.services.telemetry.traceparent import check_address

# Seconds until a thread that reads a model's tokens lets the event loop go on; Python's own 5 ms, a few times
# in a request, would be most of what a neighbour waits.
SWITCH = 0.0005
logger = logging.getLogger(__name__)


def serve(
    config: ServeConfig, decode: DecodeConfig, overrides: Sequence[str] = (), alignment: AlignmentConfig | None = None
) -> int:
    """Answers requests until a signal. Prints the address on its own line once requests are answered.

    Raises UserError: the port is taken, the bundle is not valid, the registry has no such model, the file has no keys,
    more connections than this process may have, or the cluster does not answer.
    """
    check(config)
    if alignment is not None:
        alignment.check()
    if config.cluster is not None:
        deploy: Callable[..., int] = importlib.import_module("dragoman.services.endpoint.ray_serve").deploy
        return deploy(config, decode, overrides, alignment)
    read_keys(config.keys)
    sys.setswitchinterval(SWITCH)
    with keep_freed_memory(), contextlib.closing(bind(config.host, config.port)) as listening:
        reserve_descriptors(config.connections)
        with open_endpoint(config, decode, overrides, alignment) as (endpoint, documents):
            server = Server(
                create_app(endpoint, documents),
                listening,
                connections=config.connections,
                patience=config.receive_timeout,
                grace=config.stop_timeout,
                refused=endpoint.metrics.refuse,
                ready=partial(print_address, *listening.getsockname()[:2]),
                loop="uvloop",
                proxies=networks("serve.proxies", config.proxies),
            )
            # uvicorn stops gracefully on SIGTERM, then raises it again; by then it is handled.
            with handled_by(lambda *_: None, signal.SIGTERM):
                server.serve_requests()
    return compose.OK


def check(config: ServeConfig) -> None:
    """Refuses invalid settings by name. Raises UserError: names the key and the value."""
    several = (config.models, config.ensemble, config.vectors, config.encoder, config.labels, config.guesser)
    if not any((config.bundle, config.model, *several)):
        raise UserError(
            "serve: nothing to serve: serve.model, serve.models, serve.bundle, serve.ensemble, serve.vectors, "
            "serve.encoder, serve.labels or serve.guesser must name something"
        )
    if config.models and (config.bundle is not None or config.ensemble):
        raise UserError(
            "serve.models: cannot be set with serve.bundle or serve.ensemble; put the directory into the list"
        )
    if config.weights and len(config.weights) != len(config.models):
        raise UserError(
            f"serve.weights: {len(config.weights)} numbers for {len(config.models)} of serve.models; one each is needed"
        )
    if config.hook_url is not None and config.hook is None:
        raise UserError("serve.hook_url: needs serve.hook, the file with the webhook's secret")
    if config.hook_url is not None and not config.tracking_uri.startswith(("http://", "https://")):
        raise UserError(
            f"serve.hook_url: only a server sends webhooks, and tracking.uri={config.tracking_uri} is none; "
            "leave it out: new versions are found by polling"
        )
    if config.suggestions and config.database is None:
        raise UserError("serve.suggestions: needs serve.database, where suggestions are stored")
    if config.traces is not None:
        check_address(config.traces)
    networks("serve.proxies", config.proxies)
    check_ranges("serve", config)
