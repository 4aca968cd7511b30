"""`dragoman compare`: compares networks, trained with equal budgets or existing, on one page. A killed run resumes."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from dragoman.conf import compose
from dragoman.model.inference.bleu import tokeniser
from dragoman.model.plural import plural
from dragoman.model.shards.manifest import manifest_hash, read_manifest
from dragoman.pipelines.cluster.map import here
from dragoman.pipelines.cluster.ray_train import connect
from dragoman.pipelines.comparison import lines, record
from dragoman.pipelines.comparison.entries import Entry, resolve
from dragoman.pipelines.comparison.figures import Compared, draw_figures
from dragoman.pipelines.comparison.language import language_report
from dragoman.pipelines.comparison.measures import folder, measure, record_of
from dragoman.pipelines.comparison.page import Report
from dragoman.pipelines.comparison.samples import samples
from dragoman.pipelines.comparison.seeds import over_seeds, with_seeds
from dragoman.pipelines.comparison.table import Row, rows, table_of
from dragoman.pipelines.comparison.texts import changed_keys, limits
from dragoman.pipelines.comparison.training import bundle_of, with_budget
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.comparison_settings import model_file
from dragoman.pipelines.evaluation.translation import held_out
from dragoman.pipelines.settings import Backend
from dragoman.pipelines.tasks.openings import Checked, open_split
from dragoman.pipelines.tracking.run import TrackedRun
from dragoman.pipelines.tracking.server import resolve_paths

logger = logging.getLogger(__name__)


def check(config: Config) -> None:
    """Refuses items that cannot be compared; looks for runs and bundles only if their folders must be visible."""
    files = [item for item in config.models if model_file(item)]
    resolve(config if config.paths.visible or not files else replace(config, models=files))


def task(config: Config) -> int:
    """Resolves all items, trains networks, measures, draws and writes."""
    config = replace(config, tracking=resolve_paths(config.tracking), paths=config.paths.absolute())
    entries = with_budget(config, with_seeds(resolve(config), config.compare.seeds))
    checked = open_test_set(config, entries)
    trains = any(one.config is not None for one in entries)
    with connect(config.cluster if trains else here()) as place:  # one Ray session for all trainings
        entries = [on_backend(one, place.backend) for one in entries]
        report = REPORTS[entries[0].kind](config, entries)
    page = record.write(config, report)
    print(report.table)
    if checked is not None:
        print(f"\n{checked}")
    logger.info(f"the report is {page}; its pictures are beside it and in the MLflow run {config.compare.name!r}")
    return compose.OK


def open_test_set(config: Config, entries: Sequence[Entry]) -> Checked | None:
    """Refuses a set that an existing network learned from, and records its opening; networks to train see to it."""
    existing, home = [one.bundle for one in entries if one.bundle is not None], folder(config)
    tracked = TrackedRun(config.tracking, home, config.compare.name, system=False)
    try:
        return open_split(config, entries[0].kind, home, config.compare.name, existing, tracked)
    finally:
        tracked.leave()


def translation_report(config: Config, entries: Sequence[Entry]) -> Report:
    """Trains and measures translation networks; returns their page's content."""
    sources, references = held_out(config.shard_dir, config.evaluate.split, config.languages, config.evaluate.sentences)
    found = Compared({}, {}, {}, sources, references, {})
    for number, one in enumerate(entries, 1):
        logger.info(f"{number} of {len(entries)}: {one.label}")
        measures, bundle = measure(config, one, bundle_of(one), references)
        found.runs.setdefault(one.again or one.label, []).append(measures)
        if one.again:
            continue  # a network's inside is shown only for its first seed
        found.bundles[one.label] = bundle
        training = record_of(bundle)
        if training is not None:
            found.records[one.label] = training
    tokenize = tokeniser(config.evaluate.tokenize, config.languages[1])
    for label, runs in found.runs.items():
        found.measures[label] = over_seeds(runs, references, tokenize, config.evaluate.bootstrap)
    return make_report(config, found)


REPORTS: dict[str, Callable[[Config, Sequence[Entry]], Report]] = {  # by the networks' kind
    "translation": translation_report,
    "language": language_report,
}


def on_backend(entry: Entry, backend: Backend) -> Entry:
    """Returns the entry with its training on `backend`."""
    if entry.config is None:
        return entry
    return replace(entry, config=replace(entry.config, cluster=replace(entry.config.cluster, backend=backend)))


def make_report(config: Config, found: Compared) -> Report:
    """Returns the page's content."""
    settings, every = config.evaluate, list(found.measures.values())
    every_row = rows(
        every, found.records, found.references, config.languages[1], settings.tokenize, settings.bootstrap, found.runs
    )
    manifest = read_manifest(config.shard_dir)
    return Report(
        title=f"{len(every)} networks on {manifest.corpus}, {' to '.join(config.languages)}",
        lead=lead(config, found),
        table=table_of(every_row),
        pictures=list(draw_figures(config, found)),
        samples=samples(found.sources, found.references, {one.label: one.hypotheses for one in every}),
        lines=by_line(config, found),
        notes=notes(config, every_row),
    )


def by_line(config: Config, found: Compared) -> lines.Lines | None:
    """Returns the lines that the networks translate otherwise; None for one network."""
    texts = {label: one.hypotheses for label, one in found.measures.items()}
    references = [(line,) for line in found.references]
    one = lines.Compared(config.evaluate.split, found.sources, references, (), texts)
    return lines.lines_of([one], config.languages) if len(texts) > 1 else None


def lead(config: Config, found: Compared) -> str:
    """Describes the comparison in one or two sentences."""
    trained = sum(one.trained_here for one in found.measures.values())
    said = f"{plural(len(found.sources), 'sentence')} of the split {config.evaluate.split}."
    if trained:
        said += f" {trained} of the networks were trained for this page on the same batches in the same order"
        said += f"{limits(config)}."
        if config.compare.seeds > 1:
            said += f" Each was trained from {config.compare.seeds} seeds; scores are their means."
    if trained < len(found.measures):
        said += f" {len(found.measures) - trained} were taken as they stand, whatever they were trained with."
    return said


def coverage(config: Config) -> str:
    """Describes what the intervals and p-values cover."""
    if config.compare.seeds == 1:
        return "They cover the choice of the sentences alone: from another seed a network may score higher or lower."
    return (
        f"Of networks trained here they cover the sentences and {config.compare.seeds} seeds, both resampled; of those "
        f"taken as they stand the sentences alone."
    )


def notes(config: Config, table: Sequence[Row]) -> list[str]:
    """Describes the measurements so that they can be repeated."""
    first = table[0].measures
    engines = ", ".join(sorted({row.measures.engine for row in table}))
    trained = {row.measures.architecture for row in table if row.measures.trained_here}
    penalties = ", ".join(f"{row.measures.label} {row.measures.length_penalty:g}" for row in table)
    return [
        f"BLEU {first.signatures['bleu']}; chrF {first.signatures['chrf']}. Intervals: 95 % of "
        f"{config.evaluate.bootstrap:,} sets resampled from the sentences; p: two-sided by Student's t, its standard "
        f"error from resampled sentences and seeds, and behind it as Holm (1979) corrects it for the "
        f"{sum(row.tested for row in table)} comparisons of networks with several seeds. " + coverage(config),
        f"Decoding: {engines}; beam {first.beam}; length penalty chosen on the validation set: {penalties}. Speeds are "
        f"those of the machine that this ran on, with everything else that ran there.",
        *changed_keys(config, trained),
        f"Shards {manifest_hash(config.shard_dir)[:12]}, seed {config.seed}. Bundles: "
        + ", ".join(f"{row.measures.label} {row.measures.bundle[:12]}" for row in table)
        + ".",
        f"Made by: dragoman compare pair={config.pair} models=[{','.join(row.measures.label for row in table)}]",
    ]
