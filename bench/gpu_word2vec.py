"""`python -m bench word2vec --device cuda`: the torch paths of word2vec, raw words/s (model/word_vectors/batched.py).

    python -m bench.gpu_word2vec     where no GPU is: the plain path on a CPU

Needs torch and numpy alone; without the real corpora the words are drawn from Zipf's law.
"""

import importlib.util
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import torch

from bench.english_text import RECORD, english_text
from bench.result import in_turns, rate
from dragoman.model.word_vectors.batched import BatchedWord2Vec
from dragoman.model.word_vectors.batched import Path as TorchPath
from dragoman.model.word_vectors.learner import Text
from dragoman.model.word_vectors.word2vec import Word2VecConfig

VARIANTS = {
    "": Word2VecConfig(),
    " CBOW": Word2VecConfig(algorithm="cbow"),
    " hierarchical": Word2VecConfig(output="hierarchical"),
    " CBOW hierarchical": Word2VecConfig(algorithm="cbow", output="hierarchical"),
}


def measure(device: str = "cpu", quick: bool = False) -> dict[str, float]:
    """Raw words/s by path: "bmm" (a step at a time), and on a GPU "graph" (steps replayed) and "triton".

    A path alone is skip-gram with 5 negatives; the other variants stand after it, as in "bmm CBOW".
    """
    gpu = device == "cuda"
    if gpu and not torch.cuda.is_available():
        raise SystemExit("bench word2vec --device cuda: torch sees no GPU here")
    paths: dict[str, TorchPath] = {"bmm": "steps"}
    if gpu:
        paths["graph"] = "graph"
        if importlib.util.find_spec("triton") is None:
            print("the package triton is not installed: its kernel is not measured")
        else:
            paths["triton"] = "triton"
    size = (1_500_000 if quick else 10_000_000) if gpu else (200_000 if quick else 1_000_000)
    with tempfile.TemporaryDirectory() as folder:
        english = english_text(Path(folder) / "text.txt", size)
    segments = cut(english.text, 1_000_000 if gpu else 50_000)
    learners = {
        name + variant: BatchedWord2Vec(config, english.vocabulary.counts, 1, device, path)
        for name, path in paths.items()
        for variant, config in VARIANTS.items()
    }
    for learner in learners.values():  # libraries warm up, graphs are recorded, the kernel is compiled
        learner.train(segments[0], 0.025, 0, 0)
    measures = {name: partial(rate, partial(learn, learner, segments)) for name, learner in learners.items()}
    return in_turns(1 if quick else 3, **measures)


def learn(learner: BatchedWord2Vec, segments: list[Text]) -> int:
    """Train on all segments; their words."""
    for seed, segment in enumerate(segments):
        learner.train(segment, 0.025, seed, 0)
    return sum(len(segment) for segment in segments)


def cut(text: Text, words: int) -> list[Text]:
    """The text in segments of at most `words` words, whole records of RECORD words."""
    parts = [text.rows[first : first + words] for first in range(0, len(text), words)]
    return [Text(part, np.arange(0, len(part) + 1, RECORD)) for part in parts]


if __name__ == "__main__":
    for name, value in measure("cuda" if torch.cuda.is_available() else "cpu").items():
        print(f"{name:<24}{value / 1e6:8.2f} M raw words/s")
