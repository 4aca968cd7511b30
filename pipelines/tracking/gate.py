"""Counts the questions to a held-out set about the better version, and sets the level of proof for each.

Asking often enough finds a better version by luck. So the k-th question to a set must reach the level
alpha / (k (k + 1)). These sum to alpha for any number of questions, which bounds the chance that any of them moves the
alias by luck (alpha-spending, Bonferroni's inequality with an open end: Foster and Stine 2008, section 2).

A question is a tag of the *registered model*, `gate/SET/QUESTION`, for the reasons in `history`. Repeating a question
(candidate, champion and metric) gives the same answer and spends nothing.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

PREFIX = "gate/"
RESOLUTION = 2  # a level is at least this many times the smallest p-value of the resampling


@dataclass(frozen=True)
class Question:
    """The question which of two versions is better on a held-out set."""

    candidate: str  # version number
    champion: str
    metric: str
    p_value: float  # the answer
    by: str  # user@machine
    time: str  # ISO 8601, UTC


def set_name(lines: Iterable[str]) -> str:
    """Returns the name of a held-out set: a digest of its texts."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()[:16]


def level(p_value: float, number: int) -> float:
    """Returns the limit for the p-value of question `number` (from 1), if all together may spend `p_value`."""
    return p_value / (number * (number + 1))


def enough_samples(client: Any, name: str, p_value: float, samples: int) -> int:
    """Returns `samples`, or more if the next question to any set of the registered model needs them."""
    counts = Counter(key.split("/")[1] for key in _tags(client, name))
    return max(samples, math.ceil(RESOLUTION / level(p_value, max(counts.values(), default=0) + 1)))


def place(client: Any, name: str, held_out: str, question: Question) -> tuple[int, int]:
    """Returns (number of the question to the set, number of sets asked) as `ask` would give them."""
    tags = _tags(client, name)
    sets = [key.split("/")[1] for key in tags]
    is_again = _key(held_out, question) in tags
    return sets.count(held_out) + (0 if is_again else 1), len({*sets, held_out})


def ask(client: Any, name: str, held_out: str, question: Question) -> tuple[int, Question]:
    """Records the question to the set once; returns its number for this set, from 1, and the first answer.

    Another number of resamples gives another p-value, so asking until one is small enough must not be free.
    """
    key = _key(held_out, question)
    if key not in _tags(client, name):
        client.set_registered_model_tag(name, key, json.dumps(asdict(question)))
    of_set = {
        question_key: json.loads(text)
        for question_key, text in _tags(client, name).items()
        if question_key.split("/")[1] == held_out
    }
    number = sorted(of_set, key=lambda question_key: (of_set[question_key]["time"], question_key)).index(key) + 1
    return number, Question(**of_set[key])


def _key(held_out: str, question: Question) -> str:
    question_text = f"{question.candidate} {question.champion} {question.metric}"
    return f"{PREFIX}{held_out}/{hashlib.sha256(question_text.encode()).hexdigest()[:16]}"


def _tags(client: Any, name: str) -> dict[str, str]:
    tags = client.get_registered_model(name).tags
    return {key: value for key, value in tags.items() if key.startswith(PREFIX)}
