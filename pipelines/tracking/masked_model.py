"""A bundle of a masked language model as an MLflow model: like `translation_model.py`, this file itself is stored.

MLflow runs it to load the model, so it acts at import: `set_model` is MLflow's convention. The package `model` is
stored beside it; `mlflow models serve` needs nothing else of Dragoman.
"""

from pathlib import Path
from typing import Any

from mlflow.models import set_model
from mlflow.pyfunc import PythonModel


class MaskedModel(PythonModel):  # type: ignore[misc]  # MLflow's classes are untyped here
    """`predict(["The cat <mask> on the mat.", ...]) -> ["The cat sat on the mat.", ...]`, each text filled."""

    def load_context(self, context: Any) -> None:
        """Open the bundle; called once."""
        from model.bundles.language import load_text_bundle

        self.bundle = load_text_bundle(Path(context.artifacts["bundle"]), "masked")

    def predict(self, model_input: list[str], params: dict[str, Any] | None = None) -> list[str]:
        """`model_input`: texts with `<mask>` where a token is to be guessed; there are no `params`.

        Raises:
            UserError: a text is longer than the network's positions.
        """
        from model.decoding.fill_mask import fill_masks

        bundle = self.bundle
        filled = fill_masks(bundle.network, bundle.tokenizer, list(model_input), 1, bundle.normalisation)
        return [one.text for one in filled]


set_model(MaskedModel())
