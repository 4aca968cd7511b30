"""py3langid's model: which language a text is in."""

from functools import cache
from typing import Any

from dragoman.model.languages import base_language

LONGEST = 1_000  # characters of a text that are read


@cache
def identifier() -> Any:
    """Returns the model, loaded when it is first needed: half a second, and 74 MB."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def most_likely(text: str, language: str) -> tuple[float | None, float]:
    """Returns the probability of `language`, None if the model does not know it, and that of the likeliest one."""
    probabilities: dict[str, float] = {}
    for label, probability in identifier().rank(text[:LONGEST]):
        code = base_language(label)
        probabilities[code] = probabilities.get(code, 0.0) + float(probability)
    return probabilities.get(base_language(language)), max(probabilities.values())
