"""A bundle of a language model as an MLflow model: like `translation_model.py`, this file itself is stored, no pickle.

MLflow runs it to load the model, so it acts at import: `set_model` is MLflow's convention. The package `model` is
stored beside it; `mlflow models serve` needs nothing else of Dragoman.
"""

from pathlib import Path
from typing import Any

from mlflow.models import set_model
from mlflow.pyfunc import PythonModel


class LanguageModel(PythonModel):  # type: ignore[misc]  # MLflow's classes are untyped here
    """`predict(["Once upon a", ...]) -> [" time there was ...", ...]`, the continuation of each text, in order."""

    def load_context(self, context: Any) -> None:
        """Open the bundle; called once."""
        from model.bundles.language import load_text_bundle

        self.bundle = load_text_bundle(Path(context.artifacts["bundle"]), "language")

    def predict(self, model_input: list[str], params: dict[str, Any] | None = None) -> list[str]:
        """`model_input`: beginnings. `params`: settings of `GenerateConfig`, by which tokens are drawn.

        Raises:
            UserError: a setting out of range.
        """
        from model.decoding.generation import generate
        from model.settings import GenerateConfig

        bundle, prompts, config = self.bundle, list(model_input), GenerateConfig(**(params or {}))
        found = generate(bundle.language_network, bundle.tokenizer, prompts, config, bundle.normalisation)
        return [texts[0].text for texts in found]


set_model(LanguageModel())
