"""Evaluation of models: scores on held-out texts, alignment errors, and settings chosen on the validation set."""
