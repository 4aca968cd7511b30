"""py3langid's model, loaded when a text's language is asked for."""

from functools import cache
from typing import Any


@cache
def identifier() -> Any:
    """Returns the model, loaded once: half a second, and 74 MB."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
