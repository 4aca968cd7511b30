"""Sentences that the pages of all kinds of networks share."""

from collections.abc import Collection

from dragoman.pipelines.config import Config


def limits(config: Config) -> str:
    """Returns `, each for at most 8 million target tokens and 30 minutes`; "" without limits."""
    found = []
    if config.compare.max_tokens:
        tokens = config.compare.max_tokens
        found.append(f"{f'{tokens / 1e6:g} million' if tokens >= 1e6 else f'{tokens:,}'} target tokens")
    if config.compare.max_minutes:
        minutes = config.compare.max_minutes
        found.append(f"{minutes:g} minutes" if minutes >= 1 else f"{60 * minutes:g} seconds")
    return f", each for at most {' and '.join(found)}" if found else ""


def changed_keys(config: Config, architectures: Collection[str]) -> list[str]:
    """Returns a sentence on the keys that differ from conf/model; `architectures`: of the networks trained here."""
    keys = {name: own for name, own in config.compare.networks.items() if name in architectures}
    keys |= {"every network that has the key": config.compare.model} if architectures and config.compare.model else {}
    said = "; ".join(
        f"{name} with {', '.join(f'{key}={value}' for key, value in own.items())}" for name, own in keys.items()
    )
    return [f"Trained here other than conf/model says: {said}."] if said else []
