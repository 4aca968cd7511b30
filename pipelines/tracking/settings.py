"""The sections `tracking`, `registry` and `promote` of the configuration."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from dragoman.model.ranges import Amount, Positive, Probability, Range
from dragoman.model.schema import NO_SETTING


@dataclass
class TrackingConfig:
    """The tracking server and its time limits, in seconds."""

    uri: str = "sqlite:///artifacts/mlflow/mlflow.db"  # or http(s)://host:port, postgresql://...
    artifacts: str | None = "artifacts/mlflow/artifacts"  # for databases; a server has its own
    experiment: str = "dragoman"
    parent: str | None = None  # id of the parent run
    offline: bool = False  # true: spool only; `dragoman sync` sends later
    system_metrics: bool = True
    flush_seconds: Positive = field(default=5.0, metadata=NO_SETTING)  # interval of the background thread
    timeout: Positive = field(default=10.0, metadata=NO_SETTING)  # for one request to the server
    flush_timeout: Amount = field(default=30.0, metadata=NO_SETTING)  # longest wait for unsent records at a run's end
    register_timeout: Amount = field(default=120.0, metadata=NO_SETTING)  # longest wait for its version
    system_seconds: Positive = field(default=10.0, metadata=NO_SETTING)  # between two samples of the machine


@dataclass
class RegistryConfig:
    """The registered model for new versions."""

    name: str = "corpus-en-de"
    alias: str = "champion"  # what the endpoint follows
    register: bool = True  # True: a finished training registers its bundle


@dataclass
class PromoteConfig:
    """The version to make champion, and the proof that it needs."""

    version: str | None = None  # null: the newest
    split: str = "auto"  # of texts; auto: gate if the shards have it, else valid. Never the test set
    # auto: BLEU; for word vectors the mean of Spearman's correlation and of correct analogies; for language models the
    # likelihood, as bits per character (masked ones: nats per predicted token)
    metric: Literal["auto", "bleu", "chrf", "similarity", "analogies", "likelihood"] = "auto"
    p_value: Probability = 0.05  # a lead that chance explains no worse is refused
    trials: Annotated[int, Range(100)] = 1000  # random exchanges of the paired test
    force: bool = False  # promote without proof; needs a reason
    reason: str = ""
