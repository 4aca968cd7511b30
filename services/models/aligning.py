"""The network that shows attention, in a process of its own: PyTorch takes a second to load and holds Python's lock."""

import weakref
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dragoman.model.alignment.attention_map import AttentionMap
from dragoman.model.errors import UserError
from dragoman.model.settings import AlignmentConfig
from dragoman.services.subprocesses.pool import GoneError, Pool

MODULE = "dragoman.services.models.aligning_worker"
COMPUTING = 300.0  # CPU seconds of a batch
_LIVING: "list[weakref.ref[AlignerApart]]" = []


def aligning_pool() -> Pool:
    """Returns the process of all models of a server."""
    return Pool(MODULE, 1, COMPUTING)


@dataclass(eq=False)
class AlignerApart:
    """Attention maps of finished translations, by the pool's process, which keeps the networks of those that live.

    The constructor raises UserError: the network has no attention, or not the configured head.
    """

    pool: Pool
    directory: Path  # the bundle's
    config: AlignmentConfig = field(default_factory=AlignmentConfig)
    device: str = "cpu"
    prefix: str = ""  # tags before each source line, as text

    def __post_init__(self) -> None:
        self._ask()
        _LIVING.append(weakref.ref(self, _LIVING.remove))

    def maps(self, lines: Sequence[str], targets: Sequence[Sequence[int]]) -> list[AttentionMap]:
        plain = [[int(token) for token in target] for target in targets]
        maps = self._ask(lines=list(lines), targets=plain)["maps"] if lines else []
        return [AttentionMap.of_values(values) for values in maps]

    def _ask(self, **values: Any) -> dict[str, Any]:
        living = [str(aligner.directory) for aligner in (self, *(ref() for ref in tuple(_LIVING))) if aligner]
        network = {"directory": str(self.directory), "device": self.device, "prefix": self.prefix, "kept": living}
        question = {**network, "config": asdict(self.config), **values}
        try:
            answer: dict[str, Any] = self.pool.ask(question)
        except GoneError:  # it may have been killed for another one's sake
            answer = self.pool.ask(question)
        if "refused" in answer:
            raise UserError(answer["refused"])
        if "failed" in answer:
            raise RuntimeError(answer["failed"])
        return answer
