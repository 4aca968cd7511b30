"""Inference with a bundle: translation, scores, sentence vectors, reranking, alignment."""
