"""GloVe's inner loop as machine code; import it only where it runs."""

import numpy as np
from numpy.typing import NDArray

from dragoman.model.word_vectors.compiled import compiled

Floats = NDArray[np.float32]
Rows = NDArray[np.int32]


@compiled
def fit_entries(
    words: Rows,  # (n,) i
    contexts: Rows,  # (n,) j
    logarithms: Floats,  # (n,) log X_ij
    weights: Floats,  # (n,) f(X_ij)
    word_table: Floats,  # (V, padded) w_i in [:, :d], b_i in [:, d]
    context_table: Floats,  # (V, padded) w~_j and b~_j
    word_squares: Floats,  # (V, padded) 1 + the sum of squared gradients, each times the rate of its time
    context_squares: Floats,  # (V, padded)
    width: int,
    lr: float,
) -> float:
    """Updates the tables for each entry in order; returns the sum of f(X_ij) (w_i w~_j + b_i + b~_j - log X_ij)^2."""
    loss = 0.0
    for n in range(len(words)):
        i, j = words[n], contexts[n]
        error = word_table[i, width] + context_table[j, width] - logarithms[n]
        for k in range(width):
            error += word_table[i, k] * context_table[j, k]
        weighted = weights[n] * error
        loss += float(weighted) * float(error)
        step = np.float32(lr) * weighted
        for k in range(width):
            word, context = word_table[i, k], context_table[j, k]
            of_word, of_context = step * context, step * word
            word_sum = word_squares[i, k] + of_word * of_word
            context_sum = context_squares[j, k] + of_context * of_context
            word_squares[i, k] = word_sum
            context_squares[j, k] = context_sum
            word_table[i, k] = word - of_word / np.sqrt(word_sum)
            context_table[j, k] = context - of_context / np.sqrt(context_sum)
        word_squares[i, width] += step * step
        context_squares[j, width] += step * step
        word_table[i, width] -= step / np.sqrt(word_squares[i, width])
        context_table[j, width] -= step / np.sqrt(context_squares[j, width])
    return loss
