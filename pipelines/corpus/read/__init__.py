"""Reads corpus files into records."""
