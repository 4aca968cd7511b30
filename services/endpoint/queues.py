"""The queues of an endpoint's models: each follows what a setting names, and has a thread that answers."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from dragoman.model.alignment.attention_map import AlignmentConfig
from dragoman.model.inference.translator import Translation
from dragoman.model.settings import DecodeConfig
from dragoman.services.endpoint.batcher import Batcher
from dragoman.services.endpoint.fair_queue import tokens_of
from dragoman.services.endpoint.inference_queue import Answering, InferenceQueue
from dragoman.services.endpoint.metrics import Metrics
from dragoman.services.models.aligning import aligning_pool
from dragoman.services.models.catalogue import Catalogue
from dragoman.services.models.follower import Follower
from dragoman.services.models.loaded_encoder import EncoderLoader, LoadedEncoder
from dragoman.services.models.loaded_guesser import GuesserLoader, LoadedGuesser
from dragoman.services.models.loaded_labeller import LabellerLoader, LoadedLabeller
from dragoman.services.models.loaded_model import LoadedModel
from dragoman.services.models.loaded_vectors import LoadedVectors
from dragoman.services.models.named_loader import NamedLoader
from dragoman.services.models.registry import ModelVersion, Registry, is_registered
from dragoman.services.models.served import Served
from dragoman.services.models.source import Loader
from dragoman.services.models.vectors_source import VectorsLoader
from dragoman.services.settings import ServeConfig

PATIENCE = 5.0  # seconds for a load in progress; it is abandoned then, and ends with the process
Model = TypeVar("Model", bound=Answering)
Item = TypeVar("Item")
Answer = TypeVar("Answer")


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
        apart = stack.enter_context(contextlib.closing(aligning_pool()))
        for number, source in enumerate(sources):
            loader = Loader(source, decode, overrides, alignment, apart)
            reference = None if source.bundle is not None or source.ensemble else source.model
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
    return [
        dataclasses.replace(config, model=reference, bundle=None if is_registered(reference) else reference)
        for reference in references
    ]


@dataclass(frozen=True)
class Kind(Generic[Model, Item, Answer]):
    """A kind of model with a queue of its own; a setting of its name names the model."""

    name: str
    what: str  # in messages
    refusal: str  # begins messages about a failure
    loader: Callable[[Registry, Path, str], NamedLoader[Model]]
    answer: Callable[[Model, list[Item], int], Sequence[Answer]]

    @contextlib.contextmanager
    def __call__(
        self, config: ServeConfig, metrics: Metrics | None = None
    ) -> Iterator[InferenceQueue[Model, Item, Answer] | None]:
        """Yields the queue for the model that the setting names, which it follows; None if none is named."""
        named: str | None = getattr(config, self.name)
        if named is None:
            yield None
            return
        watch = (metrics or Metrics()).watch(self.name)
        registry = Registry(config.tracking_uri, Path(config.cache))
        loader = self.loader(registry, Path(config.runs), config.device)
        reference = named if is_registered(named) else None
        with (
            follow_model(
                config, registry, reference, partial(loader.load, named), loader.load_version, watch.swapped
            ) as follower,
            run_batcher(
                config, Batcher(self.answer, limit=config.batch, capacity=config.queue, watch=watch)
            ) as batcher,
        ):
            current, trouble = (lambda: follower.current), (lambda: follower.error)
            yield InferenceQueue(self.what, self.refusal, current, batcher, trouble, config.timeout)


vectors = Kind("vectors", "set of word vectors", "Cannot search", VectorsLoader, LoadedVectors.answer)
encoder = Kind("encoder", "encoder", "Cannot make vectors", EncoderLoader, LoadedEncoder.encode)
guesser = Kind("guesser", "language model", "Cannot guess", GuesserLoader, LoadedGuesser.guess)
labels = Kind("labels", "model of labels", "Cannot label", LabellerLoader, LoadedLabeller.label)


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
    follower.repeating.start()
    try:
        yield follower
    finally:
        follower.repeating.stop(PATIENCE)


@contextlib.contextmanager
def run_batcher(config: ServeConfig, batcher: Batcher[Model, Item, Answer]) -> Iterator[Batcher[Model, Item, Answer]]:
    """Runs the batcher's thread during the block; finishes the queue at its end."""
    batcher.start()
    try:
        yield batcher
    finally:
        batcher.stop(config.stop_timeout)
