"""Attention read as an alignment of words: maps, spans, pictures."""
