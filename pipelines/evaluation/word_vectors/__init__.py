"""Evaluation of word vectors: similarity sets, analogies, pictures."""
