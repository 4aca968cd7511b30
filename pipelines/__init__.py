"""The pipelines that make a model: corpus, shards, loader, training loop, checkpoints, evaluation, registry."""

from dragoman.model.openmp import limit_spinning

limit_spinning()  # before torch is imported; Ray's workers import this package first
