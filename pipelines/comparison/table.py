"""The table of a comparison: one row per network, with its gain over the previous row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dragoman.model.columns import columns
from dragoman.model.durations import duration
from dragoman.pipelines.comparison.measures import Measures, TrainingRecord
from dragoman.pipelines.comparison.seeds import Step

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

    def lines(self) -> list[list[str]]:
        """Returns the head and the rows as plain text."""
        cells = [[f"{large} ({small})" if small else large for large, small in row] for row in self.rows]
        return [[" ".join(filter(None, pair)) for pair in self.head], *cells]

    def __str__(self) -> str:
        return "\n".join(columns(self.lines()))


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


def table_of(
    every: Sequence[Measures], records: Mapping[str, TrainingRecord], gains: Mapping[str, Step], seeds: int
) -> Table:
    """Returns the table of networks of one kind."""
    rows: list[Cells] = []
    metrics: dict[str, float] = {}
    for measures in every:
        label, step, record = measures.label, gains.get(measures.label), records.get(measures.label)
        score, second, *more = measures.cells()
        rows.append(
            [
                (label, origin_of(measures.trained_here, seeds)),
                score,
                step_cell(step, measures.digits),
                second,
                (amount(measures.parameters), ""),
                *trained_cells(record),
                *more,
            ]
        )
        figures = {**measures.scores(), "parameters": float(measures.parameters)}
        if record is not None:
            figures |= {
                "training_tokens": float(record.tokens),
                "training_minutes": record.minutes,
                "training_tokens_per_second": record.tokens_per_second,
            }
        if step is not None:
            significance, corrected = step
            figures[measures.step] = significance.difference
            if corrected is not None:
                figures |= {f"{measures.step}_p": significance.p_value, f"{measures.step}_p_holm": corrected}
        metrics |= {f"{label}/{name}": value for name, value in figures.items()}
    first = every[0]
    bundles = {measures.label: measures.bundle for measures in every}
    return Table(first.head(seeds), rows, metrics, bundles, first.highest, first.lowest)


def origin_of(trained_here: bool, seeds: int) -> str:
    """Returns what stands below a network's name."""
    if not trained_here:
        return "as it stands"
    return f"{seeds} seeds" if seeds > 1 else ""
