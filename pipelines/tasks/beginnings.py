"""The table of a run's beginnings beside its settings: other models' weights, answers and word vectors."""

from typing import Any

from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.pipelines.config import Config
from dragoman.pipelines.tasks import pretrained_embeddings, teachers, warm_start

BEGINNINGS = (pretrained_embeddings.ROWS, warm_start.WEIGHTS, teachers.ANSWERS)
OF_TRAINING = ("lora", "quantize")  # settings that a bundle names


def keep(config: Config, tokenizers: TokenizerPair) -> None:
    """Stores the tensors that a new run begins with, once, before its ranks start."""
    for beginning in BEGINNINGS:
        beginning.keep(config, tokenizers)


def facts(config: Config) -> dict[str, Any]:
    """Returns the bundle's facts about the models that gave the run weights, probabilities or word vectors."""
    rows, weights, answers = (beginning.note(config) for beginning in BEGINNINGS)
    return {
        **({"init": weights} if weights else {}),
        **{key: value for key, value in config.train.beginning.items() if key in OF_TRAINING},
        **({"teachers": {**answers, "part": config.train.loss.distillation}} if answers else {}),
        **({"embeddings": {**rows["sides"], "freeze": config.embeddings.freeze}} if rows else {}),
    }
