"""The kinds of model, one row each: their differences in training, release, evaluation and promotion."""
