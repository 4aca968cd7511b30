"""The messages between a server and the processes that prepare its texts, as plain values for JSON."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dragoman.model.alignment.attention_map import AttentionMap
from dragoman.model.inference.losses import Losses
from dragoman.model.inference.translator import Alternative, Translation
from dragoman.services.texts.glossary import Glossary
from dragoman.services.texts.options import TextOptions
from dragoman.services.texts.stand_ins import Pair, StandIns
from dragoman.services.texts.translating import Answer, Result


def plain_options(options: TextOptions) -> dict[str, Any]:
    """Returns options; what other processes know is asked for."""
    return {**vars(options), "glossary": options.glossary and dict(options.glossary.terms), "known": None}


def read_options(values: Mapping[str, Any]) -> TextOptions:
    terms = values["glossary"]
    return TextOptions(**{**values, "glossary": None if terms is None else Glossary(terms)})


def plain_translation(translation: Translation) -> dict[str, Any]:
    """Returns a translation without the tokens of its alternatives, which nobody needs any more."""
    return {
        **vars(translation),
        "nbest": [
            (alternative.text, alternative.score, alternative.log_probability) for alternative in translation.nbest
        ],
        "attention": [attention.values() for attention in translation.attention],
    }


def read_translation(values: Mapping[str, Any]) -> Translation:
    attention = tuple(map(AttentionMap.of_values, values["attention"]))
    nbest = [Alternative(*alternative) for alternative in values["nbest"]]
    return Translation(**{**values, "nbest": nbest, "attention": attention, "missing": tuple(values["missing"])})


def plain_answer(answer: Answer) -> dict[str, Any]:
    """Returns what a model answers to a question: translations, or its stand-ins."""
    return vars(answer) if isinstance(answer, StandIns) else {"translations": list(map(plain_translation, answer))}


def read_answer(values: Mapping[str, Any]) -> Answer:
    if "translations" in values:
        return list(map(read_translation, values["translations"]))
    return StandIns(_pairs(values["names"]), _pairs(values["numbers"]))


def plain_result(result: Result) -> dict[str, Any]:
    return {**vars(result), "losses": [vars(loss) for loss in result.losses]}


def read_result(values: Mapping[str, Any]) -> Result:
    losses = [Losses(**{**loss, "missing": Counter(loss["missing"])}) for loss in values["losses"]]
    return Result(**{**values, "lost": Counter(values["lost"]), "losses": losses})


def _pairs(pairs: Iterable[tuple[str, Sequence[str]]]) -> tuple[Pair, ...]:
    return tuple((word, tuple(forms)) for word, forms in pairs)
