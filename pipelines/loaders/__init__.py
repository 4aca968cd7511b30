"""Loaders: shards -> the same batches on any number of workers, for pairs, texts and word segments."""
