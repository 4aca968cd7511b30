"""Batches -> weights: the loop, the optimizer, checkpoints, the journal, progress."""
