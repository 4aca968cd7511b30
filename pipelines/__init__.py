"""How a model comes to be: corpus, shards, loader, loop, checkpoints, evaluation, registry."""

from model.openmp import limit_spinning

limit_spinning()  # before torch is imported; a worker of Ray begins with this package
