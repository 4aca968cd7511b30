"""Counts in messages."""


def plural(count: float, thing: str) -> str:
    """Returns `1 sentence`, `2 sentences` or `1,000 sentences`."""
    return f"{count:,} {thing}{'s' * (count != 1)}"
