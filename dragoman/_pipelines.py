"""The commands from a corpus to a champion. Our modules are imported in the call: torch takes seconds to load.

`progress`: True says on standard error what the command says, False nothing but warnings; None: the first on a terminal
and in a notebook.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from dragoman._errors import one_exception
from dragoman._progress import progress_shown
from dragoman._results import Evaluation, Promotion, Run, Shards
from dragoman._settings import Path, configure, words_of
from dragoman.conf.again import remembered
from dragoman.model.bundles.directory import read_facts
from dragoman.model.errors import UserError
from dragoman.model.runs.record import read_release


def shard(*overrides: str, config: Path | None = None, progress: bool | None = None, **settings: Any) -> Shards:
    """Makes shards of a corpus, resumes half-made ones, or finds them finished; like `dragoman shard`.

    Raises:
        DragomanError: a problem of the corpus, its files or the settings.
    """
    with one_exception(), progress_shown(progress):
        from dragoman.pipelines import shard as verb
        from dragoman.pipelines.config import Config
        from dragoman.pipelines.settle import settle

        whole = configure(Config, _at_home("shard", words_of(overrides, config, settings)), partial(settle, "shard"))
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


def train(*overrides: str, config: Path | None = None, progress: bool | None = None, **settings: Any) -> Run:
    """Trains the run `name` to its end, scores and registers it; like `dragoman train`. The same call resumes.

    Raises:
        DragomanError: no shards, invalid settings, or a run of that name with other settings.
        KeyboardInterrupt: a signal or `dragoman yield` stopped it; the message says what was saved.
    """
    with one_exception(), progress_shown(progress):
        from dragoman.pipelines.config import Config
        from dragoman.pipelines.entries import refuse_without_shards
        from dragoman.pipelines.settle import settle
        from dragoman.pipelines.tasks.launch import train as launch

        words = _at_home("train", words_of(overrides, config, settings))
        whole = configure(Config, words, partial(settle, "train"))
        with remembered(words):
            refuse_without_shards(whole)
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


def evaluate(*overrides: str, config: Path | None = None, progress: bool | None = None, **settings: Any) -> Evaluation:
    """Scores the run `name`, or another one, `bundle`, on a held-out set; like `dragoman evaluate`.

    Raises:
        DragomanError: an unknown name or split.
    """
    with one_exception(), progress_shown(progress):
        from dragoman.pipelines import evaluate as verb
        from dragoman.pipelines.config import Config

        whole = configure(Config, _at_home("evaluate", words_of(overrides, config, settings)))
        measured, comparison = verb.evaluate(whole, say=lambda report: None)
        return Evaluation(scores=dict(measured.metrics()), report=measured.report(), comparison=comparison)


def promote(*overrides: str, config: Path | None = None, progress: bool | None = None, **settings: Any) -> Promotion:
    """Makes a registered version champion if it is better than the champion; like `dragoman promote`.

    A version that is not better is no error: `accepted` is then False.

    Raises:
        DragomanError: an unknown version, or another owner's model.
    """
    with one_exception(), progress_shown(progress):
        from dragoman.pipelines import promote as verb
        from dragoman.pipelines.config import Config

        whole = configure(Config, _at_home("promote", words_of(overrides, config, settings)))
        outcome = verb.promote_version(whole)
        return Promotion(outcome.accepted, whole.registry.name, outcome.champion, outcome.message)


def _at_home(verb: str, words: list[str]) -> list[str]:
    """Returns the words with those of the home's only shards before them; a mistake in its own words comes first."""
    from dragoman.pipelines.config import Config
    from dragoman.services.from_home import home, own_words

    try:
        return [*own_words(verb, words, home()), *words]
    except UserError:
        configure(Config, words)
        raise


def _numbers(scores: Mapping[str, Any]) -> dict[str, float]:
    """Returns the numbers among a bundle's scores, without the split in their names if there is only one."""
    numbers: dict[str, float] = {}
    for name, value in scores.items():
        if isinstance(value, Mapping):
            numbers |= _numbers(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            numbers[name] = float(value)
    return numbers
