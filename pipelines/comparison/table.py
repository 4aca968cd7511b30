"""The comparison's table: one row per network, with its gain over the previous row."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dragoman.model.columns import columns
from dragoman.model.durations import duration
from dragoman.model.inference.bleu import tokeniser
from dragoman.pipelines.comparison.measures import Measures, TrainingRecord
from dragoman.pipelines.comparison.seeds import compare_seeds, covers
from dragoman.pipelines.evaluation.significance import Significance, holm

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
        """Returns the table for a terminal."""
        lines = [[" ".join(filter(None, pair)) for pair in self.head]]
        lines += [[f"{large} ({small})" if small else large for large, small in row] for row in self.rows]
        return "\n".join(columns(lines))


@dataclass(frozen=True)
class Row:
    """One network."""

    measures: Measures
    record: TrainingRecord | None
    step: Significance | None  # against the previous row; None in the first row
    tested: bool = False  # the step has a p-value: both networks were trained from two seeds or more
    corrected: float = 1.0  # its p-value by Holm, for all rows of the table
    covers: str = "sentences"  # what the intervals cover

    def metrics(self) -> dict[str, float]:
        """Returns `LABEL/bleu` and so on."""
        label = self.measures.label
        found = {f"{label}/{name}": value for name, value in self.measures.figures(self.record).items()}
        if self.step is not None:
            found[f"{label}/bleu_won"] = self.step.difference
            if self.tested:
                found |= {f"{label}/bleu_won_p": self.step.p_value, f"{label}/bleu_won_p_holm": self.corrected}
        return found

    def cells(self) -> Cells:
        """Returns the (large, small) text of each column of HEAD."""
        one, record = self.measures, self.record
        dash = ("–", "")
        return [
            (one.label, self.covers.partition(" and ")[2] if one.trained_here else "as it stands"),
            (f"{one.bleu.score:z.1f}", f"{one.bleu.low:z.1f} to {one.bleu.high:z.1f}"),
            dash if self.step is None else (f"{self.step.difference:+z.1f}", self._significance(self.step)),
            (f"{one.chrf.score:z.1f}", f"{one.chrf.low:z.1f} to {one.chrf.high:z.1f}"),
            (amount(one.parameters), ""),
            dash if record is None else (amount(record.tokens), duration(60 * record.minutes)),
            dash if record is None or not record.tokens_per_second else (f"{record.tokens_per_second:,.0f}", ""),
            (f"{one.sentences_per_second:,.1f}", f"beam {one.beam}"),
        ]

    def _significance(self, step: Significance) -> str:
        if not self.tested:
            return "one seed: no p"
        return f"p = {step.p_value:.3f}, Holm {self.corrected:.3f}"


def rows(
    every: Sequence[Measures],
    records: Mapping[str, TrainingRecord],
    references: Sequence[str],
    language: str,
    tokenize: str,
    samples: int,
    runs: Mapping[str, Sequence[Measures]],
) -> list[Row]:
    """Returns the table, with each step's significance over sentences and seeds if both labels have several `runs`.

    One seed cannot tell a better network from a luckier seed, so that difference has no p-value.
    """
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)  # it logs every pair
    found: list[Row] = []
    for place, one in enumerate(every):
        step, tested = None, False
        if place and samples > 1:
            before, own = (runs[each.label] for each in (every[place - 1], one))
            tested = min(len(before), len(own)) > 1
            step = compare_seeds(before, own, references, tokeniser(tokenize, language), samples)
        found.append(Row(one, records.get(one.label), step, tested, covers=covers(runs[one.label])))
    corrected = iter(holm([row.step.p_value for row in found if row.step is not None and row.tested]))
    return [replace(row, corrected=next(corrected)) if row.tested else row for row in found]


def amount(number: int) -> str:
    """`2.61M`, `12.3k`, `950`."""
    if number >= 1e6:
        return f"{number / 1e6:.2f}M"
    return f"{number / 1e3:.1f}k" if number >= 1e4 else f"{number:,}"


def table_of(every: Sequence[Row]) -> Table:
    """Returns the table of translation networks."""
    return Table(
        HEAD,
        [row.cells() for row in every],
        {name: value for row in every for name, value in row.metrics().items()},
        {row.measures.label: row.measures.bundle for row in every},
        HIGHEST,
    )
