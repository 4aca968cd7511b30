"""fastText's word vectors, asked by bench/word2vec.py line by line; runs in the peers' environment.

    python -m bench.fasttext_word2vec TEXT < requests

Without subwords (maxn 0) fastText trains the networks of the original word2vec. Each request is a line of JSON, and so
is the answer: the seconds of the training alone, with the vectors in an .npz where a path is given. fastText counts
the words of its file before it trains; the seconds of that (a training of no epochs) are taken off. It has one seed, an
exponent of 0.5 for negatives where the paper has 0.75, and lets the rate fall to 0.

Every training has a process of its own: this version meets NaN where one process trains twice (memory that it takes
for zeros is not zero any more).
"""

import json
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np


def main() -> None:
    """Answer until the input ends."""
    path = sys.argv[1]
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as fresh:
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            request = json.loads(line)
            settings = request["settings"]
            counting = fresh.submit(train, path, {**settings, "epochs": 0}, None).result()
            whole = fresh.submit(train, path, settings, request["save"]).result()
            print(json.dumps({"seconds": whole - counting}), flush=True)


def train(path: str, settings: Mapping[str, Any], save: str | None) -> float:
    """Seconds of counting and training."""
    import fasttext

    began = time.perf_counter()
    model = fasttext.train_unsupervised(
        path,
        model=settings["algorithm"],
        loss={"negative": "ns", "hierarchical": "hs"}[settings["output"]],
        dim=settings["width"],
        ws=settings["window"],
        neg=settings["negatives"],
        t=settings["sample"],
        lr=settings["lr"],
        minCount=settings["min_count"],
        thread=settings["threads"],
        epoch=settings["epochs"],
        minn=0,
        maxn=0,
        verbose=0,
    )
    seconds = time.perf_counter() - began
    if save:
        words = [word for word in model.words if word != "</s>"]  # it counts the ends of lines as a word
        np.savez(save, words=np.array(words), vectors=np.stack([model.get_word_vector(word) for word in words]))
    return seconds


if __name__ == "__main__":
    main()
