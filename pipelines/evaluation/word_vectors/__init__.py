"""Evaluation of word vectors: similarity sets, analogies, retrieval, pictures."""
