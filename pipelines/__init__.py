"""How a model comes to be: corpus, shards, loader, loop, checkpoints, evaluation, registry."""
