"""Vectors as points of a plane.

n vectors, d width.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Projection = Literal["pca", "t-SNE"]
Floats = NDArray[np.float64]
PERPLEXITY = 15.0  # of t-SNE: neighbours that a word keeps close, among some 150 words
SEED = 1


def project(points: Floats, method: Projection) -> Floats:
    """(n, d) -> (n, 2), deterministic. t-SNE (van der Maaten and Hinton 2008) needs at least 5 words.

    PCA keeps the two directions of largest variance, with fixed signs so that a picture does not flip.
    """
    if method == "t-SNE" and len(points) >= 5:
        from sklearn.manifold import TSNE
        from threadpoolctl import threadpool_limits

        perplexity = min(PERPLEXITY, (len(points) - 1) / 3)
        model = TSNE(perplexity=perplexity, metric="cosine", init="random", random_state=SEED)
        with threadpool_limits(1):  # few points: on a busy machine threads would wait for each other
            return np.asarray(model.fit_transform(points), np.float64)
    centred = points - points.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes[:2] * np.sign(axes[:2][np.arange(min(2, len(axes))), np.abs(axes[:2]).argmax(axis=1)])[:, None]
    found = centred @ axes.T
    return np.pad(found, ((0, 0), (0, 2 - found.shape[1])))
