"""Attention read as word alignment: maps, spans and plots."""
