"""Models: text, tokenizers, batches, networks, losses, decoding and bundles. Torch and pure Python only."""

from dragoman.model.openmp import limit_spinning

limit_spinning()  # before torch is imported
