"""The small figures of docs/: where each stands, which commands give it, and what it was in how many runs."""

import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from scipy.stats import t as student

from dragoman.conf import groups
from dragoman.model.networks.architectures import any_network, model_config

SURE = 0.95  # share of further runs that the interval of a figure with several values should hold
VOCABULARY = 10_000


@dataclass(frozen=True)
class Figure:
    """One number of a page."""

    name: str
    page: str  # of docs/
    text: str  # how it is written there
    seen: tuple[float, ...]  # one value: every run gives it; else one a seed, from 1 on

    @property
    def interval(self) -> tuple[float, float]:
        """What a run may give: half a unit of the last written digit to either side, or where there are several values
        Student's prediction interval of one more, mean +- t(n-1) s sqrt(1 + 1/n), which with few of them is wide.
        """
        centre = statistics.fmean(self.seen)
        half = 0.5 * 10.0 ** -len(self.text.partition(".")[2].rstrip("M"))
        if len(self.seen) > 1:
            factor = float(student.ppf(0.5 + SURE / 2, len(self.seen) - 1)) * math.sqrt(1 + 1 / len(self.seen))
            half = max(half, factor * statistics.stdev(self.seen))
        return centre - half, centre + half


@dataclass(frozen=True)
class Experiment:
    """Commands and the figures that they give; in them {home}, {corpora} and {seed} stand for what the bench chose."""

    commands: Sequence[str]
    read: Callable[[Path], Mapping[str, float]]  # the folder that they wrote into -> a value a figure
    figures: Sequence[Figure]
    corpora: Sequence[str] = ()  # folders of the corpora that it needs
    slow: bool = False


def parameters(_folder: Path) -> dict[str, float]:
    """Millions of trainable numbers of the networks of conf/model."""
    found = {}
    with torch.device("meta"):  # sizes alone: no memory, no random numbers
        for figure in PARAMETERS:
            name = figure.name.removeprefix("parameters of ")
            network = any_network(model_config(groups.merge_choice("model", name)), VOCABULARY, VOCABULARY)
            found[figure.name] = network.parameter_count() / 1e6
    return found


def dropped(folder: Path) -> dict[str, float]:
    """Training pairs that the leak guard took from the shards in the folder, in all and by rule."""
    (manifest,) = (folder / "shards").glob("*/manifest.json")
    record = json.loads(manifest.read_text(encoding="utf-8"))
    counts = {rule: count for rule, count in record["dropped"]["train"].items() if rule.startswith("leaked")}
    return {f"{record['corpus']}: {rule}": count for rule, count in counts.items()} | {
        f"{record['corpus']}: all rules": sum(counts.values())
    }


def vectors(folder: Path) -> dict[str, float]:
    """The scores of each method, in percent, by the names of its bundle's facts."""
    found: dict[str, float] = {}
    for path in sorted((folder / "runs").glob("*/bundle/config.json")):
        scores = json.loads(path.read_text(encoding="utf-8"))["scores"]
        found |= {f"{path.parent.parent.name}: {name}": value for name, value in scores.items()}
    return found


PARAMETERS = [
    Figure(f"parameters of {name}", page, text, (float(text.rstrip("M")),))
    for page, sizes in {
        "recurrent.md": {
            "rnnenc": "7.0M",
            "rnnenc_reversed": "7.0M",
            "rnnsearch_additive": "5.2M",
            "rnnsearch_general": "5.2M",
            "rnnsearch_dot": "4.9M",
            "rnnsearch_scaled_dot": "4.9M",
        },
        "language-models.md": {
            "rnnlm_lstm": "9.3M",
            "rnnlm_gru": "8.3M",
            "rnnlm_tanh": "6.2M",
            "rnnlm_relu": "6.2M",
            "gpt_tiny": "2.1M",
            "gpt_small": "93.5M",
            "gpt_modern": "2.0M",
        },
    }.items()
    for name, text in sizes.items()
]

TEXT = "experiment=word2vec corpus.train.file={home}/text.txt"
METHODS = ("skipgram", "glove", "tfidf", "bag_of_words", "one_hot")
# Of each task and method, the values of the seeds 1, 2, 3; what counts gives the same for every seed.
VECTORS: dict[str, dict[str, tuple[float, ...]]] = {
    "similarity/mean": {
        "skipgram": (21.75, 21.5, 21.37),
        "glove": (1.93, 1.91, 1.77),
        "tfidf": (16.88,),
        "bag_of_words": (6.36,),
        "one_hot": (0.7,),
    },
    "similarity/EN-SIMLEX-999": {
        "skipgram": (16.26, 15.79, 16.29),
        "glove": (0.75, 0.66, -0.1),
        "tfidf": (3.75,),
        "bag_of_words": (0.22,),
        "one_hot": (0.0,),
    },
    "similarity/EN-MEN-TR-3k": {
        "skipgram": (31.52, 31.08, 29.91),
        "glove": (6.61, 6.76, 6.92),
        "tfidf": (35.71,),
        "bag_of_words": (14.63,),
        "one_hot": (0.0,),
    },
    "analogies/mean": {
        "skipgram": (4.44, 4.7, 4.28),
        "glove": (0.37, 0.51, 0.32),
        "tfidf": (3.82,),
        "bag_of_words": (2.41,),
        "one_hot": (0.0,),
    },
    "retrieval/mean/recall_at_10": {
        "skipgram": (19.2, 19.53, 19.87),
        "glove": (1.33, 1.33, 1.27),
        "tfidf": (7.8,),
        "bag_of_words": (7.8,),
        "one_hot": (7.8,),
    },
    "retrieval/idf/recall_at_10": {
        "skipgram": (24.27, 24.67, 23.93),
        "glove": (3.0, 2.6, 3.13),
        "tfidf": (25.47,),
        "bag_of_words": (25.47,),
        "one_hot": (25.47,),
    },
}

EXPERIMENTS = {
    "parameters": Experiment((), parameters, PARAMETERS),
    "multi30k": Experiment(
        ("dragoman shard experiment=multi30k corpus.root={corpora}/multi30k cluster.backend=local",),
        dropped,
        [Figure("multi30k: all rules", "corpora.md", "one", (1,))],
        ("multi30k",),
    ),
    "tatoeba": Experiment(
        ("dragoman shard corpus=tatoeba corpus.root={corpora}/tatoeba cluster.backend=local",),
        dropped,
        [
            Figure("tatoeba: all rules", "corpora.md", "584", (584,)),
            Figure("tatoeba: leaked_target", "corpora.md", "559", (559,)),
            Figure("tatoeba: leaked_near", "corpora.md", "25", (25,)),
        ],
        ("tatoeba",),
        slow=True,
    ),
    "vectors": Experiment(
        (
            "python -m bench.english_text {home}/text.txt 1_500_000",
            f"dragoman shard {TEXT}",
            *(
                f"dragoman train {TEXT} model={method} name={method} seed={{seed}} cluster.backend=local "
                "registry.register=false vectors.evaluate.root={corpora}/wordvec-eval vectors.evaluate.pictures=false"
                for method in METHODS
            ),
        ),
        vectors,
        [
            Figure(f"{method}: {task}", "word-vectors-evaluation.md", f"{sum(values) / len(values):.1f}", values)
            for task, row in VECTORS.items()
            for method, values in row.items()
        ],
        ("wordvec-eval", "wikitext-2"),
    ),
}


def markdown() -> str:
    """All figures, a table an experiment: where, what, as it is written, what a run may give."""
    lines: list[str] = []
    for name, experiment in EXPERIMENTS.items():
        lines += [f"`python -m bench quality {name}`" + (", left out by `--quick`:" if experiment.slow else ":"), ""]
        lines += [f"    {command}" for command in experiment.commands] + [""] * bool(experiment.commands)
        lines += ["| page | figure | written | runs seen | a run may give |", "|---|---|---|---|---|"]
        for figure in experiment.figures:
            low, high = figure.interval
            runs = str(len(figure.seen)) if len(figure.seen) > 1 else "every run alike"
            lines.append(f"| {figure.page} | {figure.name} | {figure.text} | {runs} | {low:.4g} to {high:.4g} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"
