"""`dragoman compare`: compares networks, trained with equal budgets or existing, on one page. A killed run resumes."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from dragoman.conf import compose
from dragoman.model.inference.bleu import tokeniser
from dragoman.model.plural import plural
from dragoman.model.shards.manifest import read_manifest
from dragoman.pipelines.cluster.map import connect, here
from dragoman.pipelines.comparison import lines, record
from dragoman.pipelines.comparison.entries import Entry, resolve
from dragoman.pipelines.comparison.figures import Compared, draw_figures
from dragoman.pipelines.comparison.language import language_report
from dragoman.pipelines.comparison.measures import Measures, folder, measure, record_of
from dragoman.pipelines.comparison.page import Report
from dragoman.pipelines.comparison.samples import samples as shown_samples
from dragoman.pipelines.comparison.seeds import over_seeds, steps, with_seeds
from dragoman.pipelines.comparison.table import table_of
from dragoman.pipelines.comparison.texts import lead, origin
from dragoman.pipelines.comparison.training import bundle_of, with_budget
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.comparison_settings import model_file
from dragoman.pipelines.evaluation.held_out import held_out
from dragoman.pipelines.evaluation.significance import Floats, score_resampled
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
    trains = any(entry.config is not None for entry in entries)
    with connect(config.cluster if trains else here()) as place:  # one Ray session for all trainings
        entries = [on_backend(entry, place.backend) for entry in entries]
        report = REPORTS[entries[0].kind](config, entries)
    page = record.write(config, report)
    print(report.table)
    if checked is not None:
        print(f"\n{checked}")
    logger.info(f"the report is {page}; its pictures are beside it and in the MLflow run {config.compare.name!r}")
    return compose.OK


def open_test_set(config: Config, entries: Sequence[Entry]) -> Checked | None:
    """Refuses a set that an existing network learned from, and records its opening; networks to train see to it."""
    existing, home = [entry.bundle for entry in entries if entry.bundle is not None], folder(config)
    tracked = TrackedRun(config.tracking, home, config.compare.name, system=False)
    try:
        return open_split(config, home, config.compare.name, existing, tracked)
    finally:
        tracked.leave()


def translation_report(config: Config, entries: Sequence[Entry]) -> Report:
    """Trains and measures translation networks; returns their page's content."""
    sources, references = held_out(config.shard_dir, config.evaluate.split, config.languages, config.evaluate.sentences)
    compared = Compared({}, {}, {}, sources, references, {})
    for number, entry in enumerate(entries, 1):
        logger.info(f"{number} of {len(entries)}: {entry.label}")
        measures, bundle = measure(config, entry, bundle_of(entry), references)
        compared.runs.setdefault(entry.again or entry.label, []).append(measures)
        if entry.again:
            continue  # a network's inside is shown only for its first seed
        compared.bundles[entry.label] = bundle
        training = record_of(bundle)
        if training is not None:
            compared.records[entry.label] = training
    tokenize = tokeniser(config.evaluate.tokenize, config.languages[1])
    for label, runs in compared.runs.items():
        compared.measures[label] = over_seeds(runs, references, tokenize, config.evaluate.bootstrap)
    return make_report(config, compared)


REPORTS: dict[str, Callable[[Config, Sequence[Entry]], Report]] = {  # by the networks' kind
    "translation": translation_report,
    "language": language_report,
}


def on_backend(entry: Entry, backend: Backend) -> Entry:
    if entry.config is None:
        return entry
    return replace(entry, config=replace(entry.config, cluster=replace(entry.config.cluster, backend=backend)))


def make_report(config: Config, compared: Compared) -> Report:
    """Returns the page's content."""
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)  # it logs every pair
    every, samples = list(compared.measures.values()), config.evaluate.bootstrap
    tokenize = tokeniser(config.evaluate.tokenize, config.languages[1])

    def draw(runs: Sequence[Measures]) -> tuple[Floats, Floats]:
        return score_resampled([run.hypotheses for run in runs], compared.references, "bleu", tokenize, samples)

    gains = steps(compared.runs, "bleu", draw, samples)
    manifest = read_manifest(config.shard_dir)
    return Report(
        title=f"{len(every)} networks on {manifest.corpus}, {' to '.join(config.languages)}",
        lead=lead(config, every, plural(len(compared.sources), "sentence"), "batches in the same order"),
        table=table_of(every, compared.records, gains, config.compare.seeds),
        pictures=list(draw_figures(config, compared)),
        samples=shown_samples(
            compared.sources, compared.references, {measure.label: measure.hypotheses for measure in every}
        ),
        lines=by_line(config, compared),
        notes=notes(config, every, sum(corrected is not None for _, corrected in gains.values())),
    )


def by_line(config: Config, comparison: Compared) -> lines.Lines | None:
    """Returns the lines that the networks translate otherwise; None for one network."""
    texts = {label: measure.hypotheses for label, measure in comparison.measures.items()}
    references = [(line,) for line in comparison.references]
    compared = lines.Compared(config.evaluate.split, comparison.sources, references, (), texts)
    return lines.lines_of([compared], config.languages) if len(texts) > 1 else None


def coverage(config: Config) -> str:
    """Describes what the intervals and p-values cover."""
    if config.compare.seeds == 1:
        return "They cover the choice of the sentences alone: from another seed a network may score higher or lower."
    return (
        f"Of networks trained here they cover the sentences and {config.compare.seeds} seeds, both resampled; of those "
        f"taken as they stand the sentences alone."
    )


def notes(config: Config, every: Sequence[Measures], tested: int) -> list[str]:
    """Describes the measurements so that they can be repeated."""
    first, engines = every[0], ", ".join(sorted({measures.engine for measures in every}))
    penalties = ", ".join(f"{measures.label} {measures.length_penalty:g}" for measures in every)
    return [
        f"BLEU {first.signatures['bleu']}; chrF {first.signatures['chrf']}. Intervals: 95 % of "
        f"{config.evaluate.bootstrap:,} sets resampled from the sentences; p: two-sided by Student's t, its standard "
        f"error from resampled sentences and seeds, and behind it as Holm (1979) corrects it for the "
        f"{tested} comparisons of networks with several seeds. " + coverage(config),
        f"Decoding: {engines}; beam {first.beam}; length penalty chosen on the validation set: {penalties}. Speeds are "
        f"those of the machine that this ran on, with everything else that ran there.",
        *origin(config, every),
    ]
