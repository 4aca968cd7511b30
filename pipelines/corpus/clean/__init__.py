"""Cleans records and finds pairs that are no translations."""
