"""The comparison's table: one row per network, with its gain over the previous row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dragoman.model.columns import columns
from dragoman.model.durations import duration
from dragoman.pipelines.comparison.measures import Measures, TrainingRecord
from dragoman.pipelines.comparison.seeds import Step

HEAD = (
    ("network", ""),
    ("BLEU", "95 % interval"),
    ("won", "over the row before"),
    ("chrF", "95 % interval"),
    ("parameters", ""),
    ("trained on", "target tokens, minutes"),
    ("training", "tokens/s"),
    ("decoding", "sentences/s"),
)
HIGHEST = (1, 3, 6, 7)  # columns whose largest number is the best
Cells = list[tuple[str, str]]  # (large, small) text of each column
DASH = ("–", "")


@dataclass(frozen=True)
class Table:
    """The comparison as users see it, whatever the kind of its networks."""

    head: Sequence[tuple[str, str]]
    rows: Sequence[Cells]
    metrics: Mapping[str, float]  # `LABEL/bleu` and so on
    bundles: Mapping[str, str]  # label -> sha256
    highest: Sequence[int] = ()
    lowest: Sequence[int] = ()  # columns whose smallest number is the best

    def __str__(self) -> str:
        lines = [[" ".join(filter(None, pair)) for pair in self.head]]
        lines += [[f"{large} ({small})" if small else large for large, small in row] for row in self.rows]
        return "\n".join(columns(lines))


def amount(number: int) -> str:
    """`2.61M`, `12.3k`, `950`."""
    if number >= 1e6:
        return f"{number / 1e6:.2f}M"
    return f"{number / 1e3:.1f}k" if number >= 1e4 else f"{number:,}"


def trained_cells(record: TrainingRecord | None) -> Cells:
    """Returns the columns `trained on` and `training`."""
    if record is None:
        return [DASH, DASH]
    on = amount(record.tokens), duration(60 * record.minutes)
    return [on, (f"{record.tokens_per_second:,.0f}", "") if record.tokens_per_second else DASH]


def step_cell(step: Step | None, digits: int) -> tuple[str, str]:
    """Returns the difference to the row before and how sure it is."""
    if step is None:
        return DASH
    significance, corrected = step
    sure = "one seed: no p" if corrected is None else f"p = {significance.p_value:.3f}, Holm {corrected:.3f}"
    return f"{significance.difference:+z.{digits}f}", sure


def step_metrics(name: str, step: Step | None) -> dict[str, float]:
    """Returns the difference as `name`, and its p-values."""
    if step is None:
        return {}
    significance, corrected = step
    tested = {} if corrected is None else {f"{name}_p": significance.p_value, f"{name}_p_holm": corrected}
    return {name: significance.difference, **tested}


def table_of(
    every: Sequence[Measures], records: Mapping[str, TrainingRecord], gains: Mapping[str, Step], seeds: int
) -> Table:
    """Returns the table of translation networks."""
    return Table(
        HEAD,
        [
            [
                (measures.label, origin_of(measures.trained_here, seeds)),
                (f"{measures.bleu.score:z.1f}", f"{measures.bleu.low:z.1f} to {measures.bleu.high:z.1f}"),
                step_cell(gains.get(measures.label), 1),
                (f"{measures.chrf.score:z.1f}", f"{measures.chrf.low:z.1f} to {measures.chrf.high:z.1f}"),
                (amount(measures.parameters), ""),
                *trained_cells(records.get(measures.label)),
                (f"{measures.sentences_per_second:,.1f}", f"beam {measures.beam}"),
            ]
            for measures in every
        ],
        {
            f"{measures.label}/{name}": value
            for measures in every
            for name, value in (
                measures.figures(records.get(measures.label)) | step_metrics("bleu_won", gains.get(measures.label))
            ).items()
        },
        {measures.label: measures.bundle for measures in every},
        HIGHEST,
    )


def origin_of(trained_here: bool, seeds: int) -> str:
    """Returns what stands below a network's name."""
    if not trained_here:
        return "as it stands"
    return f"{seeds} seeds" if seeds > 1 else ""
