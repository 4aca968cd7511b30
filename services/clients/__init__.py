"""Asks a server with the unmodified clients of other translation services."""
