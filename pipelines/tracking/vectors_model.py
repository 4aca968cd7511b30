"""A bundle of word vectors as an MLflow model: like `translation_model.py`, this file itself is stored, no pickle.

MLflow runs it to load the model, so it acts at import: `set_model` is MLflow's convention. The package `model` is
stored beside it; `mlflow models serve` needs nothing else of Dragoman.
"""

from pathlib import Path
from typing import Any

from mlflow.models import set_model
from mlflow.pyfunc import PythonModel


class VectorsModel(PythonModel):  # type: ignore[misc]  # MLflow's classes are untyped here
    """`predict(["king", ...]) -> [[0.1, ...], ...]`, the vector of each word, in order."""

    def load_context(self, context: Any) -> None:
        """Open the bundle; called once."""
        from model.bundles.vectors import load_vectors

        self.embeddings = load_vectors(Path(context.artifacts["bundle"])).embeddings

    def predict(self, model_input: list[str], params: dict[str, Any] | None = None) -> list[list[float]]:
        """`model_input`: words as the vectors write them; there are no `params`.

        Raises:
            UserError: a word without a vector (named, with close spellings).
        """
        return [[float(number) for number in self.embeddings.vector(word)] for word in model_input]


set_model(VectorsModel())
