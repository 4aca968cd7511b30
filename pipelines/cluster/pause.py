"""What workers raise that end in order so that a group of another size may follow."""


class PausedError(Exception):
    """They have written a checkpoint; no failure."""
