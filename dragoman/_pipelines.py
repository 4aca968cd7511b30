"""The verbs from a corpus to a champion. Ours are imported when they are called: torch takes seconds to load."""

from collections.abc import Mapping
from typing import Any

from dragoman._errors import one_exception
from dragoman._results import Evaluation, Promotion, Run, Shards
from dragoman._settings import Path, configure, words_of
from model.bundles.directory import read_facts
from model.errors import UserError
from model.runs.record import read_release


def shard(*overrides: str, config: Path | None = None, **settings: Any) -> Shards:
    """Make shards of a corpus, go on with half-made ones, or find them finished; like `dragoman shard`.

    Raises:
        DragomanError: something about the corpus, its files or the settings.
    """
    with one_exception():
        from pipelines import shard as verb
        from pipelines.config import Config

        whole = configure(Config, words_of(overrides, config, settings))
        result = verb.shard(whole)
        verb.record(whole, result)
        manifest = result.manifest
        return Shards(
            folder=result.directory,
            corpus=manifest.corpus,
            languages=tuple(manifest.languages),
            records={name: split.records for name, split in manifest.splits.items()},
            dropped=manifest.dropped,
            hash=result.manifest_hash,
            found=result.found,
        )


def train(*overrides: str, config: Path | None = None, **settings: Any) -> Run:
    """Train the run `name` to its end, score and register it; like `dragoman train`. The same call again goes on.

    Raises:
        DragomanError: no shards, settings that cannot be, a run of that name with others.
        KeyboardInterrupt: a signal or `dragoman yield` stopped it; what was kept is in the message.
    """
    with one_exception():
        from pipelines.config import Config
        from pipelines.corpus.sharded import as_sharded
        from pipelines.entries import refuse_without_shards
        from pipelines.tasks.launch import train as launch

        words = words_of(overrides, config, settings)
        whole = configure(Config, words, as_sharded)
        refuse_without_shards(whole, words)
        bundle = launch(whole, say=lambda report: None)
        if bundle is None:
            raise UserError("train: this process is not the first rank of its group, which alone has the result")
        record = read_release(whole.run_dir)
        return Run(
            name=whole.name,
            folder=whole.run_dir,
            bundle=bundle,
            scores=_numbers(read_facts(bundle).get("scores") or {}),
            model=record.get("model"),
            version=record.get("version"),
        )


def evaluate(*overrides: str, config: Path | None = None, **settings: Any) -> Evaluation:
    """Score the run `name`, or what `evaluate.bundle` names, on a held-out set; like `dragoman evaluate`.

    Raises:
        DragomanError: nothing of that name, no such split.
    """
    with one_exception():
        from pipelines import evaluate as verb
        from pipelines.config import Config

        whole = configure(Config, words_of(overrides, config, settings))
        measured, comparison = verb.evaluate(whole, say=lambda report: None)
        return Evaluation(scores=dict(measured.scores), report=measured.report, comparison=comparison)


def promote(*overrides: str, config: Path | None = None, **settings: Any) -> Promotion:
    """Make a registered version champion if it is better than the champion; like `dragoman promote`.

    One that is not better is no error: `accepted` says so.

    Raises:
        DragomanError: no such version, another owner's model.
    """
    with one_exception():
        from pipelines import promote as verb
        from pipelines.config import Config

        whole = configure(Config, words_of(overrides, config, settings))
        outcome = verb.promote_configured(whole)
        return Promotion(outcome.accepted, whole.registry.name, outcome.champion, outcome.message)


def _numbers(scores: Mapping[str, Any]) -> dict[str, float]:
    """The numbers among a bundle's scores; those of its one split by their own names."""
    found: dict[str, float] = {}
    for name, value in scores.items():
        if isinstance(value, Mapping):
            found |= _numbers(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = float(value)
    return found
