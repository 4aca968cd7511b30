"""Decides which record goes where."""
