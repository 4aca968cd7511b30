"""The table of a comparison: one row per network, with its difference to the row before."""

from collections.abc import Sequence
from itertools import pairwise

from dragoman.pipelines.comparison.measures import Measured
from dragoman.pipelines.evaluation.significance import Significance
from dragoman.pipelines.evaluation.translation import TranslationEvaluation

SCORES = {  # by the kind of network: the figures that are columns, the first of them tested, with title and digits
    "translation": {"bleu": ("BLEU", 1), "chrf": ("chrF", 1), "sentences_per_second": ("sentences/s", 1)},
    "language": {"bits_per_character": ("bits per character", 3), "perplexity": ("perplexity", 2)},
}
TRAINING = {"training_tokens": ("tokens", 0), "training_minutes": ("minutes", 1), "tokens_per_second": ("tokens/s", 0)}
DASH = "-"


def figures(network: Measured) -> dict[str, float]:
    """Returns the figures of a network by name."""
    values = {**network.evaluation.figures(), "parameters": float(network.parameters)}
    if isinstance(network.evaluation, TranslationEvaluation):
        values["sentences_per_second"] = network.evaluation.speed
    if network.training is not None:
        values |= {
            "training_tokens": float(network.training.tokens),
            "training_minutes": network.training.minutes,
            "tokens_per_second": network.training.tokens_per_second,
        }
    return values


def steps(networks: Sequence[Measured], trials: int) -> dict[str, Significance]:
    """Returns label -> the paired test of a network against the one before."""
    return {after.label: after.evaluation.compare(before.evaluation, trials) for before, after in pairwise(networks)}


def table_of(networks: Sequence[Measured], kind: str, tests: dict[str, Significance]) -> list[list[str]]:
    """Returns the head and the rows as text."""
    (first, (title, digits)), *others = SCORES[kind].items()
    more = {**dict(others), "parameters": ("parameters", 0), **TRAINING}
    rows = [["network", title, "difference", "p", *(name for name, _ in more.values())]]
    for network in networks:
        values, test = figures(network), tests.get(network.label)
        difference = [DASH, DASH] if test is None else [f"{test.difference:+.{digits}f}", f"{test.p_value:.3f}"]
        cells = [DASH if key not in values else f"{values[key]:,.{decimals}f}" for key, (_, decimals) in more.items()]
        rows.append([network.label, f"{values[first]:.{digits}f}", *difference, *cells])
    return rows


def metrics_of(networks: Sequence[Measured], kind: str, tests: dict[str, Significance]) -> dict[str, float]:
    """Returns the table as metrics: `LABEL/bleu` and so on."""
    names = [*SCORES[kind], "parameters", *TRAINING]
    metrics = {
        f"{network.label}/{name}": value
        for network in networks
        for name, value in figures(network).items()
        if name in names
    }
    return metrics | {f"{label}/p_value": test.p_value for label, test in tests.items()}
