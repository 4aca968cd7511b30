"""word2vec (Mikolov et al. 2013a, b): skip-gram and CBOW with three output layers, trained on a CPU."""

from dataclasses import dataclass
from typing import Literal


@dataclass
class Word2VecConfig:
    """The defaults are the original tool's for skip-gram with negative sampling."""

    architecture: Literal["word2vec"] = "word2vec"
    name: str = "skipgram"
    form: Literal["skipgram", "cbow"] = "skipgram"
    output: Literal["negative", "hierarchical", "softmax"] = "negative"
    width: int = 100  # d, numbers a vector
    window: int = 5  # words on each side, at most
    dynamic_window: bool = True  # 1 to `window` words, drawn anew for every position: near words count more
    mean: bool = True  # CBOW predicts from the mean of the window's vectors; false: from their sum
    negatives: int = 5  # drawn words a prediction, with output=negative
    exponent: float = 0.75  # of the counts that negatives are drawn by
    sample: float = 1e-3  # threshold of Mikolov's subsampling of frequent words; 0: keep all
    min_count: int = 5  # rarer words get no vector and leave the text
    lr: float = 0.025  # at the start, falling linearly to
    min_lr: float = 1e-4
