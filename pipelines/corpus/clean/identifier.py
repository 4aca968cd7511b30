"""py3langid's model."""

from functools import cache
from typing import Any


@cache
def identifier() -> Any:
    """Returns the model, loaded when it is first needed: half a second, and 74 MB."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
