"""A bundle as an MLflow model: this file itself is stored with the version ("models from code"), nothing is pickled.

MLflow runs it to load the model, so unlike our other modules it acts at import: `set_model` is its convention. The
package `model` is stored beside it; `mlflow models serve` needs nothing else of Dragoman.
"""

from pathlib import Path
from typing import Any

from mlflow.models import set_model
from mlflow.pyfunc import PythonModel


class TranslationModel(PythonModel):  # type: ignore[misc]  # MLflow's classes are untyped here
    """`predict(["Ein Satz.", ...], {"beam": 1}) -> ["A sentence.", ...]`, one translation a line, in order."""

    def load_context(self, context: Any) -> None:
        """Open the bundle; called once."""
        from model.inference.translator import open_translator

        self.translator = open_translator(Path(context.artifacts["bundle"]))

    def predict(self, model_input: list[str], params: dict[str, Any] | None = None) -> list[str]:
        """`model_input`: source sentences. `params`: decoding settings; the bundle's own where nothing is said.

        Raises:
            UserError: a setting out of range.
        """
        from dataclasses import replace

        decode = replace(self.translator.decode, **{"nbest": 1, **(params or {})})
        return [translation.text for translation in self.translator.translate(list(model_input), decode)]


set_model(TranslationModel())
