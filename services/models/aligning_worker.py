"""A process that shows the attention of finished translations, of a pool: `python -m` this module."""

import dataclasses
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from dragoman.model.alignment.attention_map import AlignmentConfig
from dragoman.model.bundles.translation import load_bundle
from dragoman.model.inference.aligner import Aligner, open_aligner
from dragoman.services.subprocesses.worker import serve

MOST = 4  # networks that are kept
MEMORY = 1 << 40  # bytes: the texts have limits already


def answer(question: dict[str, Any], _: object) -> dict[str, Any]:
    """Returns the maps of lines and the tokens of their translations; without any, the bytes of the network.

    Raises:
        UserError: the network has no attention, or not the configured head.
    """
    config = orjson.dumps(question["config"])
    aligner = _tagged(question["directory"], config, question["device"], question["prefix"])
    if "lines" not in question:
        return {"bytes": aligner.bytes}
    return {"maps": [sentence_map.values() for sentence_map in aligner.maps(question["lines"], question["targets"])]}


@lru_cache(MOST)
def _opened(directory: str, config: bytes, device: str) -> Aligner:
    return open_aligner(load_bundle(Path(directory)), AlignmentConfig(**orjson.loads(config)), device)


@lru_cache(16 * MOST)
def _tagged(directory: str, config: bytes, device: str, prefix: str) -> Aligner:
    return dataclasses.replace(_opened(directory, config, device), prefix=prefix)


if __name__ == "__main__":
    sys.exit(serve(answer, "showing attention", MEMORY))
