"""Evaluation of models: scores on held-out texts, and settings chosen on the validation set."""
