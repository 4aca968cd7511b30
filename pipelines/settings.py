"""Sections of the configuration whose code imports torch; `model/settings.py` explains why they are apart from it."""

import re
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from dragoman.model.errors import UserError
from dragoman.model.ranges import (
    Amount,
    Count,
    Finite,
    Part,
    Positive,
    Probability,
    Share,
    TwoOrMore,
    Whole,
    check_ranges,
)
from dragoman.model.settings import LossConfig, Precision, Side

WORKERS = re.compile(r"\d{1,6}(\.\.\d{1,6})?")
Backend = Literal["auto", "ray", "local"]
PENALTIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0)


@dataclass
class ClusterConfig:
    """The cluster. `workers` counts training processes (DDP ranks) and the most shard tasks at a time."""

    backend: Backend = "auto"  # local: in this process, without others; auto: that if a Ray of our own does not start
    address: str | None = None  # null: an embedded Ray; else ray://..., host:port or auto
    workers: int | str = 2  # a number, or a range (1..4): as many as fit
    device: Literal["auto", "cpu", "cuda"] = "auto"
    gpus_per_worker: Amount = 1.0  # requested only if the device is cuda
    cpus_per_worker: Positive = 1.0  # reserved for each; on a shared cluster also its number of threads
    max_failures: Whole = 3  # lost worker groups before the run is given up
    start_timeout: Positive = 60.0  # seconds to wait for the workers to start
    resize_every: Positive = 60.0  # for a range of workers: seconds between two checks for free space
    silence: Positive = 600.0  # seconds without a sign of a worker before its group is restarted

    def __post_init__(self) -> None:
        """Refuses a value that is neither a number of workers nor a range."""
        if isinstance(self.workers, str) and not (WORKERS.fullmatch(self.workers) and 0 < self.least <= self.most):
            raise UserError(f"cluster.workers={self.workers}: a number such as 2, or a range from 1 or more up: 1..4")

    @property
    def least(self) -> int:
        """Returns the fewest workers with which a training continues."""
        return int(str(self.workers).partition("..")[0])

    @property
    def most(self) -> int:
        return int(str(self.workers).rpartition("..")[2])


@dataclass
class MixConfig:
    """The shares of the corpora of a mix in the batches (docs/mixing.md)."""

    weights: dict[str, Positive] | None = None  # by part, others have none; null: by temperature
    temperature: Positive = 1.0  # without weights: records ** (1 / temperature); 1: by size, 5: nearly equal


@dataclass
class LoaderConfig:
    """The batches."""

    lanes: Whole = 0  # batches per global step; the number of ranks must divide it; 0: chosen when a run begins
    batch_tokens: TwoOrMore = 4096  # at most B x max(S, T), with padding
    window_chunks: Count = 16  # most chunks shuffled and sorted together; fewer in a small corpus
    max_length: TwoOrMore = 256  # drop records with a longer side (with EOS); that is reported
    both_directions: Whole = 0  # for this many first epochs, train half of the pairs from target to source
    sampling: Share = 0.0  # 0: off; bpe: share of the merges to drop (0.1); unigram: exponent of the probabilities
    context_length: Count = 128  # language models: tokens per row; a batch has batch_tokens / context_length rows
    mlm_probability: Probability = 0.15  # masked models: share of the tokens to predict
    whole_words: bool = False  # masked models: mask all subwords of a word together
    denoise: Literal["none", "infilling", "spans"] = "none"  # encoder-decoders: rewrite noised texts of each side
    noise_share: Share = 0.3  # denoise: share of the tokens in spans; BART has 0.3, T5 0.15
    span_length: Positive = 3.0  # denoise: mean tokens of a span
    reader: Literal["mmap", "stream"] = "mmap"  # through the local disk, or chunk by chunk from the shards' address
    side: Literal["source", "target"] | None = None  # language of parallel shards; null: the only one; denoise: both
    mix: MixConfig = field(default_factory=MixConfig)


@dataclass
class OptimizerConfig:
    """Adam (Kingma and Ba 2015), AdamW (Loshchilov and Hutter 2019), Muon (Jordan et al. 2024); the rate's schedule."""

    kind: Literal["adam", "adamw", "muon"] = "adam"
    lr: Positive = 0.0007  # the highest rate, reached at the end of the warm-up
    betas: list[Part] = field(default_factory=lambda: [0.9, 0.98])
    eps: Positive = 1e-9
    weight_decay: Amount = 0.0  # only for matrices, not for tables, biases and norms
    split_packed: bool = False  # muon: orthogonalise queries, keys, values and gates apart, not as one matrix
    schedule: Literal["inverse_sqrt", "cosine", "linear", "constant"] = "inverse_sqrt"
    warmup_steps: Whole = 2000
    min_lr: Amount = 0.0  # end of cosine and linear
    clip_norm: Amount = 1.0  # largest norm of the gradient; 0: no clipping
    ema_decay: Part = 0.0  # exponential moving average of the weights; 0: none


@dataclass
class EarlyStopping:
    """Stops a training whose metric has not improved for `patience` evaluations."""

    metric: Literal["none", "loss", "bleu"] = "none"
    patience: Count = 8


@dataclass
class LoraConfig:
    """Fine-tuning by low-rank factors of the products (Hu et al. 2021); everything else is frozen."""

    rank: Whole = 0  # of the factors; 0: train all weights
    alpha: Positive = 16.0  # the factors' product is multiplied by alpha / rank
    dropout: Part = 0.0  # of the factors' input
    targets: list[str] = field(default_factory=lambda: ["attention", "feed_forward"])
    parts: list[str] = field(default_factory=list)  # that get factors; []: encoder and decoder
    whole: list[str] = field(default_factory=list)  # parts that are trained whole beside them


@dataclass
class TrainConfig:
    """The training; `every` fields count steps (updates)."""

    init_from: str | None = None  # initial weights: a bundle's path, a run's name or models:/NAME@ALIAS
    freeze: list[str] = field(default_factory=list)  # parts that are not trained
    lora: LoraConfig = field(default_factory=LoraConfig)
    max_steps: Count = 8000
    schedule_steps: Whole = 0  # end of cosine and linear; 0: the max_steps of the run's first start
    max_minutes: Amount = 0.0  # of the whole command: the steps that fit into it; 0: no limit
    precision: Precision = "auto"  # pipelines/tasks/precision.py resolves it before a Trainer is made
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    early_stopping: EarlyStopping = field(default_factory=EarlyStopping)
    log_every: Count = 10
    evaluate_every: Count = 500  # validation loss
    bleu_every: Whole = 0  # greedy validation BLEU, a multiple of evaluate_every; 0: only if early stopping needs it
    checkpoint_every: Count = 500
    checkpoint_minutes: Amount = 10.0  # also this long after the last one; 0: none by time
    keep_checkpoints: Count = 2
    average_last: Count = 10  # checkpoints averaged into the final model: the last ones, or around the best
    average_share: Share = 0.2  # of the steps: only checkpoints from this last part, so short runs skip their start
    average_first: Share = 0.0  # share of the weights that the run began with (`init_from`) in the final ones
    final_weights: Literal["average", "last", "ema", "best", "best_average"] = "average"

    @property
    def beginning(self) -> dict[str, Any]:
        """Returns the settings of what the run begins with and trains, as run.json has them; without defaults."""
        values = {
            "init_from": self.init_from,
            "freeze": sorted(self.freeze),
            "lora": asdict(self.lora) if self.lora.rank else {},
        }
        return {key: value for key, value in values.items() if value}

    def check(self) -> None:
        """Refuses invalid values. Raises UserError: names the key, its value and what it needs."""
        check_ranges("train", self)
        if len(self.optimizer.betas) != 2:
            raise UserError(f"train.optimizer.betas={self.optimizer.betas}: must be two numbers, such as [0.9, 0.98]")
        if self.final_weights in ("best", "best_average") and self.evaluate_every % self.checkpoint_every:
            raise UserError(
                f"train.final_weights={self.final_weights}: what is evaluated must be kept, so train.evaluate_every="
                f"{self.evaluate_every} must be a multiple of train.checkpoint_every={self.checkpoint_every}"
            )
        if self.average_first and not self.init_from:
            raise UserError(
                f"train.average_first={self.average_first:g}: is a share of the weights that train.init_from names; "
                f"name a model there, or choose 0"
            )
        if self.final_weights == "ema" and not self.optimizer.ema_decay:
            raise UserError("train.final_weights=ema: needs train.optimizer.ema_decay=0.999, or another above 0")


@dataclass
class EmbeddingsConfig:
    """Initial word vectors of a network: a bundle's path, a run's name or models:/NAME@ALIAS; null: none."""

    source: str | None = None
    target: str | None = None
    freeze: bool = False  # do not train the tables

    @property
    def references(self) -> dict[Side, str]:
        """Returns the references, the source first: in a shared table the target's rows override."""
        sides: dict[Side, str | None] = {"source": self.source, "target": self.target}
        return {side: reference for side, reference in sides.items() if reference}


@dataclass
class EvaluateConfig:
    """The data, and the scores."""

    against: str | list[str] | None = None  # one or several others, compared by a paired test
    split: str = "test"
    sentences: Whole = 0  # use only this many first ones; 0: all
    stride: Whole = 0  # language models with a bounded context: tokens scored at a time; 0: half of the context
    samples: Whole = 10  # sentences shown, from the worst to the best; for language models: continuations
    tokenize: str = "auto"  # sacreBLEU's tokeniser: auto, 13a, intl, zh, ja-mecab, char, none
    trials: Count = 1000  # random exchanges of the paired test
    length_penalties: list[Finite] = field(default_factory=lambda: list(PENALTIES))  # tried for length_penalty: auto
    int8_tolerance: Amount = 0.5  # chrF that the int8 export may lose and still serve


@dataclass
class SynthesizeConfig:
    """The model that scores, and the share of the pairs that is kept."""

    scorer: str | None = None  # null: `bundle`'s own log-probability
    keep: Share = 1.0
    part: Count = 2000  # records written at a time

    def __post_init__(self) -> None:
        """Refuses values out of range."""
        check_ranges("synthesize", self)


@dataclass
class ImportConfig:
    """The tokens and words that a model's files do not choose."""

    source_token: str | None = None  # the token of the source language (__en__, eng_Latn); null: found by `pair`
    target_token: str | None = None  # of the target language (__de__, deu_Latn, >>deu<<); null: found by `pair`
