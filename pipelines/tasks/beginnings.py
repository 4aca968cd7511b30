"""The table of a run's beginnings beside its settings: other models' weights and word vectors."""

from dataclasses import asdict
from typing import Any

from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.pipelines.config import Config
from dragoman.pipelines.tasks import pretrained_embeddings, warm_start

BEGINNINGS = (pretrained_embeddings.ROWS, warm_start.WEIGHTS)


def keep(config: Config, tokenizers: TokenizerPair) -> None:
    """Stores the tensors that a new run begins with, once, before its ranks start."""
    for beginning in BEGINNINGS:
        beginning.keep(config, tokenizers)


def facts(config: Config) -> dict[str, Any]:
    """Returns the bundle's facts about the models that gave the run weights or word vectors."""
    rows, weights = (beginning.note(config) for beginning in BEGINNINGS)
    return {
        **({"init": weights} if weights else {}),
        **({"lora": asdict(config.train.lora)} if config.train.lora.rank else {}),
        **({"embeddings": {**rows["sides"], "freeze": config.embeddings.freeze}} if rows else {}),
    }
