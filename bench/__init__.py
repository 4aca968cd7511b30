"""Benchmarks: ours and the peer in the same run and turns, the ratio printed last."""
