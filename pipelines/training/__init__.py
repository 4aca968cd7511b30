"""Training, batches -> weights: the loop, the optimizer, checkpoints, the journal, progress."""
