"""gensim's Word2Vec, asked by bench/word2vec.py line by line; runs in the peers' environment.

    python -m bench.gensim_word2vec TEXT < requests

The text's words are counted once. Each request is a line of JSON, and so is the answer: the seconds of the training
alone (`corpus_file`, gensim's fastest way to read), with the vectors in an .npz where a path is given.
"""

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np


def main() -> None:
    """Answer until the input ends."""
    path = sys.argv[1]
    lines = Path(path).read_text(encoding="ascii").splitlines()
    counts = Counter(word for line in lines for word in line.split())
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps({"seconds": _train(path, counts, len(lines), json.loads(line))}), flush=True)


def _train(path: str, counts: Counter[str], records: int, request: dict[str, Any]) -> float:
    from gensim.models import Word2Vec

    save, settings = request["save"], request["settings"]
    negative = settings["output"] == "negative"
    model = Word2Vec(
        vector_size=settings["width"],
        window=settings["window"],
        min_count=settings["min_count"],
        sample=settings["sample"],
        sg=int(settings["algorithm"] == "skipgram"),
        hs=int(not negative),
        negative=settings["negatives"] if negative else 0,
        ns_exponent=settings["exponent"],
        cbow_mean=int(settings["mean"]),
        alpha=settings["lr"],
        min_alpha=settings["min_lr"],
        workers=settings["threads"],
        seed=settings["seed"],
        epochs=settings["epochs"],
    )
    model.build_vocab_from_freq(counts, corpus_count=records)
    began = time.perf_counter()
    model.train(
        corpus_file=path,
        # Each thread holds its own records against this number to see how far the rate shall have fallen. With all
        # records the rate falls by half of each epoch's share only, where there are two threads.
        total_examples=max(1, records // settings["threads"]),
        total_words=sum(counts.values()),
        epochs=settings["epochs"],
    )
    seconds = time.perf_counter() - began
    if save:
        np.savez(save, words=np.array(model.wv.index_to_key), vectors=model.wv.vectors)
    return seconds


if __name__ == "__main__":
    main()
