"""The endpoint with all that runs beside it, from its settings: for a process, or for a replica of Ray Serve."""

import contextlib
import logging
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from dragoman.model.alignment.attention_map import AlignmentConfig
from dragoman.model.errors import UserError
from dragoman.model.files import read_secret
from dragoman.model.settings import DecodeConfig
from dragoman.services.endpoint.documents.documents import Documents
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.glossaries import Glossaries
from dragoman.services.endpoint.hooks import Registration
from dragoman.services.endpoint.key_store import KeyStore
from dragoman.services.endpoint.keys import Keys
from dragoman.services.endpoint.memory import Memory
from dragoman.services.endpoint.memory_store import MemoryStore
from dragoman.services.endpoint.metrics import Metrics
from dragoman.services.endpoint.queues import encoder, guesser, labels, translation_models, translations, vectors
from dragoman.services.models.registry import Registry
from dragoman.services.settings import ServeConfig
from dragoman.services.telemetry.telemetry import Telemetry


@contextlib.contextmanager
def open_endpoint(
    config: ServeConfig,
    decode: DecodeConfig,
    overrides: Sequence[str] = (),
    alignment: AlignmentConfig | None = None,
) -> Iterator[tuple[Endpoint, Documents]]:
    """Yields the endpoint and its documents, whose threads run during the block."""
    listed = read_keys(config.keys)
    with contextlib.ExitStack() as stack:
        telemetry = stack.enter_context(contextlib.closing(Telemetry("dragoman-endpoint", config.traces)))
        metrics = Metrics(telemetry)
        models = stack.enter_context(translation_models(config, decode, overrides, alignment, metrics))
        store = KeyStore(config.database) if config.database else None
        if store is not None:
            stack.callback(store.close)
        keys = Keys(listed, store, reopens=config.reopens)
        stack.callback(keys.stop)
        keys.start()
        endpoint = Endpoint(
            translations=stack.enter_context(translations(config, models, metrics)),
            vectors=stack.enter_context(vectors(config, metrics)),
            encoder=stack.enter_context(encoder(config, metrics)),
            guesser=stack.enter_context(guesser(config, metrics)),
            labels=stack.enter_context(labels(config, metrics)),
            limits=config.limits,
            keys=keys,
            config=config,
            metrics=metrics,
            models=models,
            memory=Memory(MemoryStore(store), config.fuzzy) if store else None,
            hook=None if config.hook is None else read_keys(config.hook, "serve.hook")[0].encode(),
            glossaries=Glossaries(store),
        )
        if config.hook_url is not None and endpoint.hook is not None and models is not None:
            registry = Registry(config.tracking_uri, Path(config.cache))
            registration = Registration(registry, config.hook_url, endpoint.hook.decode(), models.wake)
            stack.callback(registration.stop)
            registration.start()
        metrics.show(endpoint.queues(), Path(config.cache), models)
        documents = Documents(endpoint, None if config.documents is None else Path(config.documents))
        stack.callback(documents.stop)
        documents.start()
        logging.getLogger("python_multipart").setLevel(logging.ERROR)  # its warnings quote the form
        yield endpoint, documents


def read_keys(path: str | None, key: str = "serve.keys") -> list[str]:
    """Reads the secrets of a file, one per line; `key` is the setting for messages.

    Raises UserError: the file cannot be read, others can read it, or it has no keys (which would admit nobody, or all).
    """
    if path is None:
        return []
    lines = read_secret(key, path).splitlines()
    mode = Path(path).stat().st_mode
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise UserError(f"{key}: {path} is open to everybody on this machine ({stat.filemode(mode)}); chmod 600 {path}")
    return [line.strip() for line in lines if line.strip()]


def print_address(host: str, port: int) -> None:
    host_shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    print(f"http://{host_shown}:{port}", flush=True)
