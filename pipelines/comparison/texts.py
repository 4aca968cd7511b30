"""Sentences that the pages of all kinds of networks share."""

from collections.abc import Sequence

from dragoman.model.shards.manifest import manifest_hash
from dragoman.pipelines.comparison.measures import Measures
from dragoman.pipelines.config import Config


def lead(config: Config, every: Sequence[Measures], measured: str, same: str) -> str:
    """Describes the comparison in one or two sentences: what was measured, and what the networks trained here share."""
    trained = sum(measure.trained_here for measure in every)
    said = f"{measured} of the split {config.evaluate.split}."
    if trained:
        said += f" {trained} of the networks were trained for this page on the same {same}{limits(config)}."
        if config.compare.seeds > 1:
            said += f" Each was trained from {config.compare.seeds} seeds; scores are their means."
    if trained < len(every):
        said += f" {len(every) - trained} were taken as they stand, whatever they were trained with."
    return said


def limits(config: Config) -> str:
    """Returns `, each for at most 8 million target tokens and 30 minutes`; "" without limits."""
    bounds = []
    if config.compare.max_tokens:
        tokens = config.compare.max_tokens
        bounds.append(f"{f'{tokens / 1e6:g} million' if tokens >= 1e6 else f'{tokens:,}'} target tokens")
    if config.compare.max_minutes:
        minutes = config.compare.max_minutes
        bounds.append(f"{minutes:g} minutes" if minutes >= 1 else f"{60 * minutes:g} seconds")
    return f", each for at most {' and '.join(bounds)}" if bounds else ""


def origin(config: Config, every: Sequence[Measures]) -> list[str]:
    """Returns sentences on the keys that differ from conf/model, on the bundles, and on how to repeat the page."""
    trained = {measure.architecture for measure in every if measure.trained_here}
    keys = {name: own for name, own in config.compare.networks.items() if name in trained}
    keys |= {"every network that has the key": config.compare.model} if trained and config.compare.model else {}
    said = "; ".join(
        f"{name} with {', '.join(f'{key}={value}' for key, value in own.items())}" for name, own in keys.items()
    )
    return [
        *([f"Trained here other than conf/model says: {said}."] if said else []),
        f"Shards {manifest_hash(config.shard_dir)[:12]}, seed {config.seed}. Bundles: "
        f"{', '.join(f'{measure.label} {measure.bundle[:12]}' for measure in every)}.",
        f"Made by: dragoman compare pair={config.pair} models=[{','.join(measure.label for measure in every)}]",
    ]
