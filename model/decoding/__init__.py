"""Decoding, from a network to words: greedy and beam search, sampling, filling masks."""
