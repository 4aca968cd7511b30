"""Translators that lose, move, double and garble what they are given, with alignments of no worth."""

import random
from collections.abc import Callable, Sequence

import numpy as np

from dragoman.model.alignment.attention_map import END, AttentionMap
from dragoman.model.inference.translator import Alternative, Translation
from dragoman.services.texts.prepare import Prepared, Rebuilt, pending
from dragoman.services.texts.stand_ins import NAMES, StandIns

STAND_INS = StandIns(
    tuple((name, (name,)) for name in NAMES), (("three", ("drei",)), ("four", ("vier",)), ("five", ("fünf",)))
)
Fake = Callable[[random.Random, str], str]


def copy(_chance: random.Random, line: str) -> str:
    return line


def drop(chance: random.Random, line: str) -> str:
    return " ".join(word for word in line.split() if chance.random() < 0.6)


def reorder(chance: random.Random, line: str) -> str:
    words = line.split()
    chance.shuffle(words)
    return " ".join(words)


def double(chance: random.Random, line: str) -> str:
    return " ".join(word for word in line.split() for _ in range(1 + (chance.random() < 0.3)))


def garble(chance: random.Random, line: str) -> str:
    signs = [chance.choice("<>&{}%'\"x ") if chance.random() < 0.1 else sign for sign in line]
    return "".join(signs)


def nothing(_chance: random.Random, _line: str) -> str:
    return ""


def shout(_chance: random.Random, line: str) -> str:
    return line.upper()


FAKES: dict[str, Fake] = {one.__name__: one for one in (copy, drop, reorder, double, garble, nothing, shout)}


def attention(chance: random.Random, line: str, text: str) -> AttentionMap:
    """Returns a map of random weights; now and then of words that are not the texts'."""
    sources, targets = (*line.split(), END), (*text.split(), END)
    if chance.random() < 0.2:
        sources, targets = sources[1:], (*targets, "more")
    weights = np.asarray([[chance.random() for _ in sources] for _ in targets], np.float32)
    return AttentionMap(tuple(sources), tuple(targets), weights, "l0h0", "output")


def translate(prepared: Prepared, fake: Fake, chance: random.Random) -> Rebuilt:
    """Returns the text as a fake translates it."""
    prepared.stand_ins = STAND_INS if chance.random() < 0.8 else StandIns()
    while not prepared.finished:
        for asked in pending([prepared]):
            asked.take([answer(fake, chance, line, asked.aligned) for line in asked.lines])
    return prepared.rebuild()


def answer(fake: Fake, chance: random.Random, line: str, aligned: bool) -> Translation:
    text = fake(chance, line)
    maps = (attention(chance, line, text),) if aligned and chance.random() < 0.8 else ()
    missing = tuple(word for word in line.split() if chance.random() < 0.02)
    return Translation(text, 0.0, [Alternative(text, 0.0)], attention=maps, missing=missing, unknown=len(missing))


def identity(lines: Sequence[str]) -> list[Translation]:
    return [Translation(line, 0.0, [Alternative(line, 0.0)]) for line in lines]
