"""Packs planned records into shards, vocabularies and reports."""
