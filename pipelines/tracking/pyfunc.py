"""A bundle as an MLflow model: this file itself is stored with the version ("models from code"), without pickles.

MLflow runs it to load the model, so unlike our other modules it acts at import: `set_model` is MLflow's convention. The
package `dragoman` (`dragoman.model` alone) is stored beside it; `mlflow models serve` needs nothing else of Dragoman.
"""

from pathlib import Path
from typing import Any

from mlflow.models import set_model
from mlflow.pyfunc import PythonModel


class BundleModel(PythonModel):  # type: ignore[misc]  # MLflow's classes are untyped here
    """`predict(["Ein Satz.", ...], {"beam": 1}) -> ["A sentence.", ...]`, one answer per text, in order.

    `model/inference/kinds.py` defines the answers: a translation, a continuation, a text with its masks filled, a
    word's vector.
    """

    def load_context(self, context: Any) -> None:
        """Opens the bundle; called once."""
        from dragoman.model.inference.kinds import open_answers

        self.answers = open_answers(Path(context.artifacts["bundle"]))

    def predict(self, model_input: list[str], params: dict[str, Any] | None = None):  # type: ignore[no-untyped-def]  # noqa: ANN201  # MLflow would take a return type for the signature's, which differs from kind to kind
        """`model_input`: texts. `params`: settings of the signature, by default the bundle's own."""
        return self.answers(list(model_input), params or {})


set_model(BundleModel())
