"""The sections `tracking`, `registry` and `promote` of the configuration."""

from dataclasses import dataclass
from typing import Annotated, Literal

from dragoman.model.ranges import Amount, Positive, Probability, Range


@dataclass
class TrackingConfig:
    """The tracking server and its time limits, in seconds."""

    uri: str = "sqlite:///artifacts/mlflow/mlflow.db"  # or http(s)://host:port, postgresql://...
    artifacts: str | None = "artifacts/mlflow/artifacts"  # for databases; a server has its own
    experiment: str = "dragoman"
    parent: str | None = None  # id of the parent run
    offline: bool = False  # true: spool only; `dragoman sync` sends later
    flush_seconds: Positive = 5.0  # interval of the background thread
    timeout: Positive = 10.0  # for one request to the server
    flush_timeout: Amount = 30.0  # longest wait for unsent records at a run's end
    register_timeout: Amount = 120.0  # longest wait for its version in the registry
    system_metrics: bool = True
    system_seconds: Positive = 10.0  # between two samples of the machine


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
