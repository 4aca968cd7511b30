"""Backups of everything that the services keep: made while they run, checked, and restored into an empty home."""
