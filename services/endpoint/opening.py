"""The endpoint with all that runs beside it, from its settings."""

import contextlib
import dataclasses
import logging
import stat
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from dragoman.model.errors import UserError
from dragoman.model.files import read_secret
from dragoman.model.inference.translator import Translation
from dragoman.model.settings import AlignmentConfig, DecodeConfig
from dragoman.services.endpoint.batcher import Batcher
from dragoman.services.endpoint.documents.documents import Documents
from dragoman.services.endpoint.endpoint import Endpoint, TermsFile
from dragoman.services.endpoint.fair_queue import tokens_of
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.endpoint.key_store import KeyStore
from dragoman.services.endpoint.keys import Keys
from dragoman.services.endpoint.metrics import Metrics
from dragoman.services.models.aligning import aligning_pool
from dragoman.services.models.catalogue import Catalogue, Served
from dragoman.services.models.follower import Follower, Versions
from dragoman.services.models.loaded_model import LoadedModel
from dragoman.services.models.registry import is_registered
from dragoman.services.models.source import ONLY, TRANSLATION, Loader, OnlyChampion, only_model
from dragoman.services.settings import ServeConfig

LOADING = 5.0  # seconds to wait at the end for a load in progress, which then ends with the process


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
        metrics = Metrics()
        models = stack.enter_context(follow_models(config, decode, overrides, alignment, metrics))
        terms = TermsFile(config.glossary) if config.glossary else None
        if terms is not None:
            terms.check(list(models.view.pairs))
        store = KeyStore(config.database) if config.database else None
        if store is not None:
            stack.callback(store.close)
        keys = Keys(listed, store)
        stack.callback(keys.stop)
        keys.start()
        batcher = stack.enter_context(run_batcher(config, metrics))
        endpoint = Endpoint(
            models,
            InferenceQueue(batcher, models.current, models.trouble, config.timeout),
            limits=config.limits,
            keys=keys,
            config=config,
            metrics=metrics,
            terms=terms,
            suggestions=Path(config.suggestions) if config.suggestions else None,
        )
        metrics.show(endpoint.queue, models, Path(config.home.cache))
        documents = Documents(endpoint, None if config.documents is None else Path(config.documents))
        stack.callback(documents.close)
        logging.getLogger("python_multipart").setLevel(logging.ERROR)  # its warnings quote the form
        yield endpoint, documents


@contextlib.contextmanager
def follow_models(
    config: ServeConfig,
    decode: DecodeConfig,
    overrides: Sequence[str] = (),
    alignment: AlignmentConfig | None = None,
    metrics: Metrics | None = None,
) -> Iterator[Catalogue]:
    """Yields the translation models, each following its reference during the block."""
    models = Catalogue(pivot=config.pivot)
    with contextlib.ExitStack() as stack:
        aligner = stack.enter_context(contextlib.closing(aligning_pool()))
        for source in model_sources(config):
            loader = Loader(source, decode, overrides, alignment, aligner)
            versions: Versions = loader.registry
            named = source.bundle or ONLY
            reference = named if named == ONLY or is_registered(named) else None
            if reference == ONLY:
                versions = OnlyChampion(source.home)
            follower = Follower(versions, reference or "", loader.load_version, config.poll)
            if metrics is not None:
                follower.swapped = metrics.swapped
            if reference is None:
                follower.current = loader.load()
            else:
                if not config.wait:
                    follower.load_now()
                follower.repeating.start()
                stack.callback(follower.repeating.stop, LOADING)
            models.add(Served(named, follower))
        yield models


def model_sources(config: ServeConfig) -> list[ServeConfig]:
    """Returns the source of each translation model that the settings name."""
    if not config.models and config.bundle is None and config.wait:
        return [config]  # follows the home's only champion, from when there is one
    references = config.models or [config.bundle or only_model(config.home, TRANSLATION)]
    return [dataclasses.replace(config, bundle=reference) for reference in references]


@contextlib.contextmanager
def run_batcher(config: ServeConfig, metrics: Metrics) -> Iterator[Batcher[LoadedModel, str, Translation]]:
    """Runs the batcher's threads during the block; finishes the queue at its end."""
    batcher = Batcher(
        partial(LoadedModel.translate, scored=False),  # no client sees scores
        limit=config.batch,
        capacity=config.queue,
        tokens=tokens_of,
        batch_tokens=config.batch_tokens,
        turn=config.turn,
        most_tokens=config.limits.tokens,
        watch=metrics,
    )
    batcher.start()
    try:
        yield batcher
    finally:
        batcher.stop(config.stop_timeout)


def read_keys(path: str | None, key: str = "serve.keys") -> list[str]:
    """Reads the secrets of a file, one per line; `key` is the setting for messages."""
    if path is None:
        return []
    lines = read_secret(key, path).splitlines()
    mode = Path(path).stat().st_mode
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise UserError(f"{key}: {path} is open to everybody on this machine ({stat.filemode(mode)}); chmod 600 {path}")
    return [line.strip() for line in lines if line.strip()]
