"""Packed shards: WebDataset tars of chunks of records, their manifest, and their readers."""
