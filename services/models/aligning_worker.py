"""A process that shows the attention of finished translations, of a pool: `python -m` this module."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import orjson

from dragoman.model.bundles.translation import load_bundle
from dragoman.model.inference.aligner import Aligner, open_aligner
from dragoman.model.settings import AlignmentConfig
from dragoman.services.models.aligning import COMPUTING
from dragoman.services.subprocesses.worker import serve

MEMORY = 1 << 40  # bytes: the texts have limits already
_ALIGNERS: dict[tuple[str, bytes, str, str], Aligner] = {}  # by bundle, configuration, device and tags of lines


def answer(question: dict[str, Any], _: object) -> dict[str, Any]:
    """Returns the maps of lines and the tokens of their translations; without any, it loads the network."""
    for unloaded in [key for key in _ALIGNERS if key[0] not in question["kept"]]:
        del _ALIGNERS[unloaded]
    key = question["directory"], orjson.dumps(question["config"]), question["device"]
    if (*key, "") not in _ALIGNERS:
        config = AlignmentConfig(**question["config"])
        _ALIGNERS[*key, ""] = open_aligner(load_bundle(Path(question["directory"])), config, question["device"])
    tagged = *key, question["prefix"]
    aligner = _ALIGNERS.get(tagged) or dataclasses.replace(_ALIGNERS[*key, ""], prefix=question["prefix"])
    _ALIGNERS[tagged] = aligner
    if "lines" not in question:
        return {}
    return {"maps": [sentence_map.values() for sentence_map in aligner.maps(question["lines"], question["targets"])]}


if __name__ == "__main__":
    sys.exit(serve(answer, "showing attention", COMPUTING, MEMORY))
