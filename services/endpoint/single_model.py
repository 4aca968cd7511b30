"""A catalogue's view of the one model that a queue has of its own."""

from dataclasses import dataclass

from dragoman.model.inference.translator import Translation
from dragoman.services.endpoint.inference_queue import InferenceQueue
from dragoman.services.models.loaded_model import LoadedModel


@dataclass(frozen=True)
class QueuesModel:
    """The model that a queue has, as the only one of a catalogue."""

    queue: InferenceQueue[LoadedModel, str, Translation]

    @property
    def current(self) -> LoadedModel | None:
        return self.queue.current()

    @property
    def error(self) -> str | None:
        return self.queue.trouble()

    def unload(self) -> None: ...

    def load_again(self) -> LoadedModel:
        return self.queue.model()

    def wake(self) -> None: ...
