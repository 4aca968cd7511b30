"""Packed shards: WebDataset tars of chunks of records, their manifest, and the ways to read them."""
