"""`dragoman serve`: the endpoint for translations, word vectors or both, from bundles or registry aliases."""

import contextlib
import dataclasses
import importlib
import logging
import os
import signal
import socket
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from conf import compose
from conf.interrupts import handled_by
from model.alignment.attention_map import AlignmentConfig
from model.errors import UserError
from model.inference.translator import Translation
from model.ranges import check_ranges
from model.settings import DecodeConfig
from services.endpoint.app import create_lean_app
from services.endpoint.batcher import Batcher
from services.endpoint.documents.documents import Documents
from services.endpoint.endpoint import EncoderQueue, Endpoint
from services.endpoint.fair_queue import tokens_of
from services.endpoint.glossaries import Glossaries
from services.endpoint.guess_routes import GuessQueue
from services.endpoint.hooks import Registration
from services.endpoint.inference_queue import Answering, InferenceQueue
from services.endpoint.key_store import KeyStore
from services.endpoint.keys import Keys
from services.endpoint.label_routes import LabelsQueue
from services.endpoint.memory import Memory
from services.endpoint.memory_store import MemoryStore
from services.endpoint.metrics import Metrics
from services.endpoint.processes import Processes
from services.endpoint.vector_routes import VectorsQueue
from services.http.listening import Server, bind, reserve_descriptors
from services.models.catalogue import Catalogue
from services.models.follower import Follower
from services.models.loaded_encoder import EncoderLoader, LoadedEncoder
from services.models.loaded_guesser import GuesserLoader, LoadedGuesser
from services.models.loaded_labeller import LabellerLoader, LoadedLabeller
from services.models.loaded_model import LoadedModel
from services.models.loaded_vectors import LoadedVectors
from services.models.registry import ModelVersion, Registry
from services.models.served import Served
from services.models.source import Loader
from services.models.vectors_source import VectorsLoader, is_registered
from services.settings import ServeConfig
from services.telemetry.summed_metrics import SummedMetrics
from services.telemetry.telemetry import Telemetry
from services.telemetry.traceparent import check_address

Model = TypeVar("Model", bound=Answering)
Loaded = TypeVar("Loaded", bound=Answering, covariant=True)
Item = TypeVar("Item")
Answer = TypeVar("Answer")
logger = logging.getLogger(__name__)


def serve(
    config: ServeConfig, decode: DecodeConfig, overrides: Sequence[str] = (), alignment: AlignmentConfig | None = None
) -> int:
    """Answers requests until a signal. Prints the address on its own line once requests are answered.

    Raises:
        UserError: the port is taken, the bundle is not valid, the registry has no such model, the file has no keys,
            more connections than this process may have, or the cluster does not answer.
    """
    check(config)
    if alignment is not None:
        alignment.check()
    if config.cluster is not None:
        deploy: Callable[..., int] = importlib.import_module("services.endpoint.ray_serve").deploy
        return deploy(config, decode, overrides, alignment)
    read_keys(config.keys)
    with contextlib.closing(bind(config.host, config.port)) as listening:
        ready = partial(print_address, *listening.getsockname()[:2])
        if config.processes == 1:
            return serve_at(config, decode, overrides, alignment, listening, ready)
        one = dataclasses.replace(config, threads=config.threads or max(1, cores() // config.processes))
        serving = partial(serve_at, one, decode, overrides, alignment)
        return Processes(serving, listening, config.processes, config.stop_timeout, ready).run()


def serve_at(
    config: ServeConfig,
    decode: DecodeConfig,
    overrides: Sequence[str],
    alignment: AlignmentConfig | None,
    listening: socket.socket,
    ready: Callable[[], None],
    summed: SummedMetrics | None = None,
) -> int:
    """Answers requests at this socket until a signal, as one process; `summed` adds other processes' metrics.

    Raises:
        UserError: as `serve`.
    """
    reserve_descriptors(config.connections)
    with open_endpoint(config, decode, overrides, alignment, summed) as (endpoint, documents):
        server = Server(
            create_lean_app(endpoint, documents),
            listening,
            connections=config.connections,
            patience=config.receive_timeout,
            grace=config.stop_timeout,
            refused=endpoint.metrics.refuse,
            ready=ready,
            loop="uvloop",
        )
        # uvicorn stops gracefully on SIGTERM, then raises it again; by then it is handled.
        with handled_by(lambda *_: None, signal.SIGTERM):
            server.serve_requests()
    return compose.OK


@contextlib.contextmanager
def open_endpoint(
    config: ServeConfig,
    decode: DecodeConfig,
    overrides: Sequence[str] = (),
    alignment: AlignmentConfig | None = None,
    summed: SummedMetrics | None = None,
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
        keys = Keys(listed, store)
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
            longest=config.longest,
            receive_timeout=config.receive_timeout,
            access_log=config.access_log,
            metrics=metrics,
            models=models,
            page=config.page,
            check_language=config.check_language,
            memory=Memory(MemoryStore(store) if store else None, config.fuzzy),
            suggestions=config.suggestions,
            hook=None if config.hook is None else read_keys(config.hook, "serve.hook")[0].encode(),
            glossaries=Glossaries(store),
            origins=config.origins,
        )
        if config.hook_url is not None and endpoint.hook is not None and models is not None:
            registry = Registry(config.tracking_uri, Path(config.cache))
            registration = Registration(registry, config.hook_url, endpoint.hook.decode(), models.wake)
            stack.callback(registration.stop)
            registration.start()
        queues = {
            "translation": endpoint.translations,
            "vectors": endpoint.vectors,
            "encoder": endpoint.encoder,
            "guesser": endpoint.guesser,
            "labels": endpoint.labels,
        }
        metrics.show(queues, Path(config.cache), models)
        documents = Documents(endpoint, None if config.documents is None else Path(config.documents))
        stack.callback(documents.stop)
        documents.start()
        if summed is not None:
            telemetry.others = summed.text
            ended = threading.Event()
            stack.callback(ended.set)
            summed.keep_noting(telemetry.own_text, ended)
        logging.getLogger("python_multipart").setLevel(logging.ERROR)  # its warnings quote the form
        yield endpoint, documents


@contextlib.contextmanager
def translations(
    config: ServeConfig, models: Catalogue | None, metrics: Metrics | None = None
) -> Iterator[InferenceQueue[LoadedModel, str, Translation] | None]:
    """Yields the queue of translations during the block; None if there are no models."""
    if models is None:
        yield None
        return
    watch = (metrics or Metrics()).watch("translation")
    translator = Batcher(
        partial(LoadedModel.translate, scored=False),  # no client sees scores
        limit=config.batch,
        capacity=config.queue,
        tokens=tokens_of,
        batch_tokens=config.batch_tokens,
        turn=config.turn,
        most_tokens=config.limits.tokens,
        watch=watch,
    )
    with run_batcher(config, translator) as batcher:
        yield InferenceQueue("model", "Cannot translate text", models.current, batcher, models.trouble, config.timeout)


@contextlib.contextmanager
def translation_models(
    config: ServeConfig,
    decode: DecodeConfig,
    overrides: Sequence[str] = (),
    alignment: AlignmentConfig | None = None,
    metrics: Metrics | None = None,
) -> Iterator[Catalogue | None]:
    """Yields the translation models, each following its reference, during the block; None if none is named."""
    sources = model_sources(config)
    if not sources:
        yield None
        return
    watch = (metrics or Metrics()).watch("translation")
    models = Catalogue(memory=config.memory, pivot=config.pivot)

    def swapped(good: bool) -> None:
        watch.swapped(good)
        models.fit()

    with contextlib.ExitStack() as stack:
        for number, source in enumerate(sources):
            loader = Loader(source, decode, overrides, alignment)
            reference = source.model if is_followed(source) else None
            follower = stack.enter_context(
                follow_model(config, loader.registry, reference, loader.load, loader.load_version, swapped)
            )
            name = reference or source.bundle or "+".join(source.ensemble)
            models.add(Served(name, follower, config.weights[number] if config.weights else 0.0))
        yield models


def model_sources(config: ServeConfig) -> list[ServeConfig]:
    """Returns the source of each translation model that the settings name."""
    if config.bundle is not None or config.ensemble:
        return [config]
    references = config.models or ([config.model] if config.model is not None else [])
    return [dataclasses.replace(config, model=one, bundle=None if is_registered(one) else one) for one in references]


def is_followed(source: ServeConfig) -> bool:
    """Returns True if the source is a reference to the registry."""
    return source.bundle is None and not source.ensemble


@contextlib.contextmanager
def vectors(config: ServeConfig, metrics: Metrics | None = None) -> Iterator[VectorsQueue | None]:
    """Yields the queue of questions about word vectors during the block; None if no vectors are named."""
    loader = VectorsLoader("serve.vectors", Registry(config.tracking_uri, Path(config.cache)), Path(config.runs))
    said = Kind("vectors", "set of word vectors", "Cannot search")
    with open_queue(config, config.vectors, loader, LoadedVectors.answer, said, metrics) as queue:
        yield queue


@contextlib.contextmanager
def encoder(config: ServeConfig, metrics: Metrics | None = None) -> Iterator[EncoderQueue | None]:
    """Yields the queue of texts to turn into vectors during the block; None if no encoder is named."""
    loader = EncoderLoader(Registry(config.tracking_uri, Path(config.cache)), Path(config.runs), config.device)
    said = Kind("encoder", "encoder", "Cannot make vectors")
    with open_queue(config, config.encoder, loader, LoadedEncoder.encode, said, metrics) as queue:
        yield queue


@contextlib.contextmanager
def guesser(config: ServeConfig, metrics: Metrics | None = None) -> Iterator[GuessQueue | None]:
    """Yields the queue of texts whose likely tokens are asked for during the block; None if no model is named."""
    loader = GuesserLoader(Registry(config.tracking_uri, Path(config.cache)), Path(config.runs), config.device)
    said = Kind("guesser", "language model", "Cannot guess")
    with open_queue(config, config.guesser, loader, LoadedGuesser.guess, said, metrics) as queue:
        yield queue


@contextlib.contextmanager
def labels(config: ServeConfig, metrics: Metrics | None = None) -> Iterator[LabelsQueue | None]:
    """Yields the queue of texts to label during the block; None if no model is named."""
    loader = LabellerLoader(Registry(config.tracking_uri, Path(config.cache)), Path(config.runs), config.device)
    said = Kind("labels", "model of labels", "Cannot label")
    with open_queue(config, config.labels, loader, LoadedLabeller.label, said, metrics) as queue:
        yield queue


class Kind(NamedTuple):
    """A kind of model: its name in metrics and in messages, and how a message about a failure begins."""

    name: str
    what: str
    refusal: str


class ModelLoader(Protocol[Loaded]):
    """Loads a model by what a setting names, or a registered version."""

    @property
    def registry(self) -> Registry: ...

    def load(self, named: str) -> Loaded: ...

    def load_version(self, version: ModelVersion) -> Loaded: ...


@contextlib.contextmanager
def open_queue(
    config: ServeConfig,
    named: str | None,
    loader: ModelLoader[Model],
    answer: Callable[[Model, list[Item], int], Sequence[Answer]],
    kind: Kind,
    metrics: Metrics | None = None,
) -> Iterator[InferenceQueue[Model, Item, Answer] | None]:
    """Yields the queue for the model `named`, which it follows, during the block; None if none is named."""
    if named is None:
        yield None
        return
    watch = (metrics or Metrics()).watch(kind.name)
    reference = named if is_registered(named) else None
    with (
        follow_model(
            config, loader.registry, reference, partial(loader.load, named), loader.load_version, watch.swapped
        ) as follower,
        run_batcher(config, Batcher(answer, limit=config.batch, capacity=config.queue, watch=watch)) as batcher,
    ):
        current, trouble = (lambda: follower.current), (lambda: follower.error)
        yield InferenceQueue(kind.what, kind.refusal, current, batcher, trouble, config.timeout)


@contextlib.contextmanager
def follow_model(
    config: ServeConfig,
    registry: Registry,
    reference: str | None,
    load: Callable[[], Model],
    load_version: Callable[[ModelVersion], Model],
    swapped: Callable[[bool], None],
) -> Iterator[Follower[Model]]:
    """Follows the model that `reference` names during the block; without a reference, the one that `load` returns."""
    follower = Follower(registry, reference or "", load_version, config.poll)
    follower.swapped = swapped
    if reference is None:
        follower.hold(load)
        yield follower
        return
    if not config.wait:
        follower.load_now()
    follower.start()
    try:
        yield follower
    finally:
        follower.stop()


@contextlib.contextmanager
def run_batcher(config: ServeConfig, batcher: Batcher[Model, Item, Answer]) -> Iterator[Batcher[Model, Item, Answer]]:
    """Runs the batcher's thread during the block; finishes the queue at its end."""
    batcher.start()
    try:
        yield batcher
    finally:
        batcher.stop(config.stop_timeout)


def check(config: ServeConfig) -> None:
    """Refuses invalid settings by name.

    Raises:
        UserError: names the key and the value.
    """
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
    if config.traces is not None:
        check_address(config.traces)
    check_ranges("serve", config)


def read_keys(path: str | None, key: str = "serve.keys") -> list[str]:
    """Reads the secrets of a file, one per line; `key` is the setting for messages.

    Raises:
        UserError: the file cannot be read, others can read it, or it has no keys (which would admit nobody, or all).
    """
    if path is None:
        return []
    try:
        mode = Path(path).stat().st_mode
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as problem:
        raise UserError(f"{key}: {path} cannot be read ({problem.strerror})") from None
    except UnicodeDecodeError:
        raise UserError(f"{key}: {path} is not text in UTF-8") from None
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise UserError(f"{key}: {path} is open to everybody on this machine ({stat.filemode(mode)}); chmod 600 {path}")
    keys = [line.strip() for line in lines if line.strip()]
    if not keys:
        raise UserError(f"{key}: {path} holds no key; one per line is expected")
    return keys


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def print_address(host: str, port: int) -> None:
    """Prints the server's address."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    print(f"http://{shown}:{port}", flush=True)
