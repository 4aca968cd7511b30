"""The network that shows attention, in a process of its own: PyTorch takes a second to load and holds Python's lock."""

import weakref
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from dragoman.model.alignment.attention_map import AlignmentConfig, AttentionMap
from dragoman.model.errors import UserError
from dragoman.services.subprocesses.pool import Pool

MODULE = "dragoman.services.models.aligning_worker"
COMPUTING = 300.0  # CPU seconds of a batch
ATTEMPTS = 2  # at a batch: a process may be killed for another one's sake
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
    bytes: int = 0  # of the network's weights

    def __post_init__(self) -> None:
        self.bytes = self._ask()["bytes"]
        _LIVING.append(weakref.ref(self, _LIVING.remove))

    def maps(self, lines: Sequence[str], targets: Sequence[Sequence[int]]) -> list[AttentionMap]:
        maps = self._ask(lines=lines, targets=targets)["maps"] if lines else []
        return [AttentionMap.of_values(values) for values in maps]

    def _ask(self, **values: Any) -> dict[str, Any]:
        kept = [str(aligner.directory) for aligner in (self, *(living() for living in tuple(_LIVING))) if aligner]
        network = {"directory": str(self.directory), "device": self.device, "prefix": self.prefix, "kept": kept}
        question = orjson.dumps({**network, "config": asdict(self.config), **values}).decode()
        for _ in range(ATTEMPTS):
            self.pool.turn("").result()
            with self.pool.lent("") as process:
                line = process.ask(question, self.pool.computing)
            if line:
                answer: dict[str, Any] = orjson.loads(line)
                if "refused" in answer:
                    raise UserError(answer["refused"])
                if "failed" in answer:
                    raise RuntimeError(answer["failed"])
                return answer
        raise RuntimeError("the process that shows attention has ended")
