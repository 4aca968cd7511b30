"""`dragoman serve`: the endpoint for translations, from bundles or registry aliases."""

import contextlib
import signal
import sys
from collections.abc import Sequence
from functools import partial

from dragoman.conf import compose
from dragoman.conf.interrupts import handled_by
from dragoman.model.errors import UserError
from dragoman.model.memory import keep_freed_memory
from dragoman.model.ranges import check_ranges
from dragoman.model.settings import AlignmentConfig, DecodeConfig
from dragoman.services.endpoint.app import create_app
from dragoman.services.endpoint.opening import open_endpoint, read_keys
from dragoman.services.http.addresses import check_addresses
from dragoman.services.http.listening import Server, bind
from dragoman.services.settings import ServeConfig

# Seconds until a thread that reads a model's tokens lets the event loop go on; Python's own 5 ms, a few times
# in a request, would be most of what a neighbour waits.
SWITCH = 0.0005


def serve(
    config: ServeConfig, decode: DecodeConfig, overrides: Sequence[str] = (), alignment: AlignmentConfig | None = None
) -> int:
    """Answers requests until a signal. Prints the address on its own line once requests are answered."""
    check(config)
    if alignment is not None:
        alignment.check()
    read_keys(config.keys)
    sys.setswitchinterval(SWITCH)
    with (
        keep_freed_memory(),
        contextlib.closing(bind(config.host, config.port)) as listening,
        open_endpoint(config, decode, overrides, alignment) as (endpoint, documents),
        handled_by(lambda *_: None, signal.SIGTERM),  # uvicorn stops gracefully on it, then raises it again
    ):
        server = Server(
            create_app(endpoint, documents),
            listening,
            connections=config.connections,
            per_address=config.per_address,
            grace=config.stop_timeout,
            header=config.receive_timeout,
            ready=partial(print_address, *listening.getsockname()[:2]),
            loop="uvloop",
            proxies=config.proxies,
        )
        server.serve_requests()
    return compose.OK


def check(config: ServeConfig) -> None:
    """Refuses invalid settings by name."""
    if config.models and config.bundle is not None:
        raise UserError("serve.models: cannot be set with bundle; put it into the list")
    check_addresses("serve.proxies", config.proxies)
    check_addresses("serve.monitors", config.monitors)
    check_ranges("serve", config)


def print_address(host: str, port: int) -> None:
    host_shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    print(f"http://{host_shown}:{port}", flush=True)
