"""Evaluation of language models: likelihood of held-out texts, and samples."""
