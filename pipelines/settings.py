"""Sections of the configuration whose code imports torch; `model/settings.py` says why they stand apart from it."""

import re
from dataclasses import dataclass, field
from typing import Literal

from model.errors import UserError
from model.ranges import Amount, Count, Finite, Part, Positive, Probability, Share, TwoOrMore, Whole, check_ranges
from model.settings import EngineName, LossConfig, Precision, Side

WORKERS = re.compile(r"\d{1,6}(\.\.\d{1,6})?")
PENALTIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0)


@dataclass
class ClusterConfig:
    """Where work runs. `workers` counts training processes (DDP ranks) and the most shard tasks at a time."""

    backend: Literal["ray", "local"] = "ray"  # local: in this process, nothing started
    address: str | None = None  # null: an embedded Ray; else ray://..., host:port or auto
    workers: int | str = 2  # a number, or a range (1..4): as many as there is room for
    device: Literal["auto", "cpu", "cuda"] = "auto"
    gpus_per_worker: Amount = 1.0  # asked for only where the device is cuda
    cpus_per_worker: Positive = 1.0  # reserved for each; on another's cluster it computes on so many threads
    max_failures: Whole = 3  # worker groups that may die before the run is given up
    start_timeout: Positive = 60.0  # seconds to wait for the workers to start
    resize_every: Positive = 60.0  # of a range of workers: seconds between two looks whether there is room for more
    silence: Positive = 600.0  # seconds without a sign of a worker until its group is started again

    def __post_init__(self) -> None:
        """Refuse what is neither a number of workers nor a range."""
        if isinstance(self.workers, str) and not (WORKERS.fullmatch(self.workers) and 0 < self.least <= self.most):
            raise UserError(f"cluster.workers={self.workers}: a number such as 2, or a range from 1 or more up: 1..4")

    @property
    def least(self) -> int:
        """The fewest workers that a training goes on with."""
        return int(str(self.workers).partition("..")[0])

    @property
    def most(self) -> int:
        """The most workers."""
        return int(str(self.workers).rpartition("..")[2])


@dataclass
class LoaderConfig:
    """What makes a batch."""

    lanes: Whole = 0  # batches a global step; the number of ranks must divide it; 0: settled when a run begins
    batch_tokens: TwoOrMore = 4096  # at most B x max(S, T), padding included
    window_chunks: Count = 16  # chunks shuffled and sorted together, at most; fewer in a small corpus
    max_length: TwoOrMore = 256  # records with a longer side (EOS included) are left out, counted and reported
    both_directions: Whole = 0  # so many first epochs, half of the pairs are trained from target to source
    sampling: Share = 0.0  # 0: off; bpe: share of the merges left out (0.1); unigram: exponent of the probabilities
    context_length: Count = 128  # language models: tokens a row, so a batch has batch_tokens / context_length rows
    mlm_probability: Probability = 0.15  # masked ones: share of the tokens that are to be guessed
    whole_words: bool = False  # masked ones: all subwords of a word are masked together
    reader: Literal["mmap", "stream"] = "mmap"  # by way of the disk, or chunk by chunk from where the shards lie
    side: Literal["source", "target"] | None = None  # of parallel shards, for both: which language; null: of one


@dataclass
class OptimizerConfig:
    """Adam (Kingma and Ba 2015), AdamW (Loshchilov and Hutter 2019), Muon (Jordan et al. 2024); the rate's course."""

    kind: Literal["adam", "adamw", "muon"] = "adam"
    lr: Positive = 0.0007  # the highest rate, reached at the end of the warm-up
    betas: list[Part] = field(default_factory=lambda: [0.9, 0.98])
    eps: Positive = 1e-9
    weight_decay: Amount = 0.0  # of matrices alone: tables, biases and norms have none
    split_packed: bool = False  # muon: queries, keys, values and gates are made orthogonal apart, not as one matrix
    schedule: Literal["inverse_sqrt", "cosine", "linear", "constant"] = "inverse_sqrt"
    warmup_steps: Whole = 2000
    min_lr: Amount = 0.0  # where cosine and linear end
    clip_norm: Amount = 1.0  # largest norm of the gradient; 0: never clipped
    ema_decay: Part = 0.0  # exponential moving average of the weights; 0: none


@dataclass
class EarlyStopping:
    """Stop when the metric has not improved for `patience` evaluations."""

    metric: Literal["none", "loss", "bleu"] = "none"
    patience: Count = 8


@dataclass
class TrainConfig:
    """How long and how; `every` fields count steps (updates)."""

    init_from: str | None = None  # whose weights it begins with: a bundle's path, a run's name or models:/NAME@ALIAS
    teachers: list[str] = field(
        default_factory=list
    )  # translation: models named in the same way, whose mean is learned
    max_steps: Count = 8000
    schedule_steps: Whole = 0  # where cosine and linear end; 0: at the max_steps of the run's first start
    max_minutes: Amount = 0.0  # training time over all starts of the run; 0: no limit
    precision: Precision = "auto"  # settled by pipelines/tasks/precision.py before a Trainer is made
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    early_stopping: EarlyStopping = field(default_factory=EarlyStopping)
    log_every: Count = 10
    evaluate_every: Count = 500  # validation loss
    bleu_every: Whole = 0  # greedy validation BLEU, a multiple of evaluate_every; 0: only when early stopping asks
    checkpoint_every: Count = 500
    checkpoint_minutes: Amount = 10.0  # beside those, so long after the last one; 0: none by the clock
    keep_checkpoints: Count = 2
    average_last: Count = 10  # weights of this many checkpoints make the final model: the last, or round the best
    average_share: Share = 0.2  # of the steps: none of them is older, so that a short run leaves its beginning out
    final_weights: Literal["average", "last", "ema", "best", "best_average"] = "average"
    unhashed_weights: bool = False  # take weights without their sha256 into the average; false: they are refused

    def check(self) -> None:
        """Refuse values that no run can have.

        Raises:
            UserError: names the key, its value and what it needs.
        """
        check_ranges("train", self)
        if len(self.optimizer.betas) != 2:
            raise UserError(f"train.optimizer.betas={self.optimizer.betas}: must be two numbers, such as [0.9, 0.98]")
        if self.teachers and self.loss.rdrop:
            raise UserError(
                f"train.loss.rdrop={self.loss.rdrop:g}: not with train.teachers; choose 0, or train.teachers=[]"
            )
        if self.final_weights in ("best", "best_average") and self.evaluate_every % self.checkpoint_every:
            raise UserError(
                f"train.final_weights={self.final_weights}: what is evaluated must be kept, so train.evaluate_every="
                f"{self.evaluate_every} must be a multiple of train.checkpoint_every={self.checkpoint_every}"
            )
        if self.final_weights == "ema" and not self.optimizer.ema_decay:
            raise UserError("train.final_weights=ema: needs train.optimizer.ema_decay=0.999, or another above 0")


@dataclass
class EmbeddingsConfig:
    """Which word vectors a network starts from. A bundle's path, a run's name or models:/NAME@ALIAS; null: none."""

    source: str | None = None
    target: str | None = None
    freeze: bool = False  # leave the tables as they are while the rest is trained

    @property
    def references(self) -> dict[Side, str]:
        """What is asked for, the source first: in a table that both share the target's rows have the last word."""
        sides: dict[Side, str | None] = {"source": self.source, "target": self.target}
        return {side: reference for side, reference in sides.items() if reference}


@dataclass
class EvaluateConfig:
    """What is evaluated, on what, and how it is scored."""

    bundle: str | None = None  # null: the run `name`; else a path, another run's name, MODEL@champion or MODEL/3
    ensemble: list[str] = field(default_factory=list)  # instead: several, decoded as one model
    against: str | list[str] | None = None  # a second one or several, compared by paired bootstrap resampling
    split: str = "test"
    engine: EngineName = "auto"
    sentences: Whole = 0  # the first so many; 0: all
    stride: Whole = 0  # language models with a bounded view: tokens scored at a time; 0: half of the view
    samples: Whole = 10  # sentences shown, from the worst to the best; of language models: continuations
    tokenize: str = "auto"  # sacreBLEU's tokeniser: auto, 13a, intl, zh, ja-mecab, char, none
    bootstrap: Count = 1000  # resampled sets
    length_penalties: list[Finite] = field(default_factory=lambda: list(PENALTIES))  # tried for length_penalty: auto
    int8_tolerance: Amount = 0.5  # chrF that the int8 export may lose and still be served
    alignment: bool = False  # attention against the gold alignment too, by head; the phrasebook has one


@dataclass
class VerifyConfig:
    """How a verification of a run is told, and how much is trained again for it."""

    recompute: str = ""  # LAST, ALL or a number of random intervals between checkpoints; empty: none
    format: Literal["text", "json"] = "text"
