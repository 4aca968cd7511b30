"""Sections of the verbs that load a network, and what each reads; `model/settings.py` says why they stand apart."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from model.alignment.attention_map import AlignmentConfig
from model.ranges import Amount, Count, Interval, Port, Range, Seed, Whole
from model.settings import DecodeConfig, EngineName, GenerateConfig


@dataclass
class BundleSource:
    """Where the model is from; part of every section that loads one."""

    bundle: str | None = None  # a bundle's directory; null: `model` from the registry
    model: str | None = "models:/phrasebook-en-de@champion"
    tracking_uri: str = "sqlite:///artifacts/mlflow/mlflow.db"
    cache: str = "artifacts/cache/models"  # downloaded bundles
    device: Literal["cpu", "cuda"] = "cpu"


@dataclass
class ModelSource(BundleSource):
    """The same with what decodes."""

    ensemble: list[str] = field(default_factory=list)  # decoded as one model: directories, models:/NAME/VERSION ...
    engine: EngineName = "auto"
    threads: Count | None = None  # batches decoded at a time; null: one a core


@dataclass
class TranslateConfig(ModelSource):
    """What is translated, by what, and how it is written."""

    input: str | None = None  # null: standard input
    output: str | None = None  # null: standard output
    format: Literal["text", "nbest", "moses", "json"] = "text"
    nbest: Count = 1  # translations a line, for nbest, moses and json
    split: bool = False  # translate a line sentence by sentence
    longest: Count = 400  # characters of a sentence before it is cut further
    attention: str | None = None  # a file for what each word looked at: .png .svg .pdf .json; see section alignment
    lines: Count = 256  # lines at a time
    on_error: Literal["raise", "skip"] = "raise"


@dataclass
class TranslateRoot:
    """The sections that the verb reads."""

    translate: TranslateConfig
    decode: DecodeConfig
    alignment: AlignmentConfig


@dataclass
class ContinueConfig(BundleSource, GenerateConfig):
    """What is gone on with, by what, and how it is written."""

    prompt: str | None = None  # null: each line of the input
    input: str | None = None  # null: standard input
    output: str | None = None  # null: standard output
    format: Literal["text", "json"] = "text"
    echo: bool = True  # text: the prompt before what was written
    at_once: Count = 64  # prompts
    on_error: Literal["raise", "skip"] = "raise"


@dataclass
class EmbedConfig(BundleSource):
    """What is turned into vectors, by what, and how they are written."""

    input: str | None = None  # null: standard input
    output: str | None = None  # null: standard output
    format: Literal["json", "npy"] = "json"
    unit: bool = False  # vectors of length 1, whose products are cosines; one of zeros stays
    too_long: Literal["error", "truncate"] = "truncate"
    batch_tokens: Count = 8192  # tokens of a batch with its padding
    lines: Count = 1024  # lines at a time
    on_error: Literal["raise", "skip"] = "raise"


@dataclass
class ScoreConfig(BundleSource):
    """What is scored, by what, and how it is written."""

    input: str | None = None  # lines of source TAB target, or of text; null: standard input
    source: str | None = None  # instead: two files of lines, this one
    target: str | None = None  # and that one
    output: str | None = None  # null: standard output
    format: Literal["text", "moses", "json"] = "text"
    measure: Literal["sum", "mean"] = "sum"  # the number of a line of text, and Moses' last column
    tokens: bool = False  # text and json: each token's too
    searched: bool = False  # as the search scores: its forbidden tokens left out of the softmax
    too_long: Literal["error", "truncate", "skip"] = "error"
    batch_tokens: Count = 8192  # source and target tokens of a batch with its padding
    lines: Count = 1024  # pairs at a time
    on_error: Literal["raise", "skip"] = "raise"


@dataclass
class RerankConfig(BundleSource):
    """What is reranked, by what, and how it is written."""

    nbest: str | None = None  # the lists; null: standard input
    source: str | None = None  # the source lines that they are of
    references: str | None = None  # their translations
    tune: str | None = None  # write weights tuned on these lists to this file
    weights: str | None = None  # weights tuned before
    features: Literal["total", "all"] = "total"  # what is weighted beside ours and the length
    feature: str = "Dragoman"  # the name of ours
    keep_length: bool = True  # weights are tuned for translations as long as the lists' first ones
    reverse: bool = False  # the model translates the other way: ours is of the source, given the hypothesis
    output: str | None = None
    format: Literal["text", "nbest", "scored"] = "text"
    tokenize: str = "auto"  # sacreBLEU's tokeniser
    restarts: Whole = 8  # searches from random weights
    directions: Whole = 4  # random directions of a sweep
    too_long: Literal["error", "truncate"] = "error"
    batch_tokens: Count = 8192  # source and target tokens of a batch with its padding
    lists: Count = 64  # lists at a time


@dataclass
class RerankRoot:
    """The sections that the verb reads."""

    rerank: RerankConfig
    seed: Seed = 1


@dataclass
class Limits:
    """How much one request may ask for."""

    characters: Count = 5000  # all texts of a request together
    texts: Count = 128  # texts of a list
    alternatives: Whole = 4  # translations besides the best one
    neighbours: Count = 1000  # words of an answer about word vectors
    body: Count = 262_144  # bytes


@dataclass
class ServeConfig(ModelSource):
    """How the endpoint answers, and with what. Times in seconds."""

    vectors: str | None = None  # word vectors: models:/NAME@ALIAS, a bundle's directory, a run; null: none
    runs: str = "artifacts/runs"
    poll: Interval = 10.0  # how often the registry is asked for a newer version
    wait: bool = False  # true: start (and say 503) before the registry has the models
    host: str = "127.0.0.1"
    port: Port = 5050  # 0: a free one
    batch: Count = 64  # lines of a batch, at most
    queue: Count = 1024  # lines, or questions about word vectors, that may wait before requests are refused with 429
    timeout: Interval = 30.0
    connections: Count = 512  # at once; where there are so many, the one that has waited longest makes room
    receive_timeout: Interval = 15.0  # for a request's header to come, and again for its body
    stop_timeout: Amount = 20.0  # for the requests in progress when the server is stopped
    longest: Annotated[int, Range(16)] = 400  # characters of a sentence before it is cut further
    keys: str | None = None  # a file of API keys, one a line, for its owner's eyes; null: everybody may ask
    access_log: bool = False  # a line a request: address, method, route, status, time; nothing that a user sent
    traces: str | None = None  # an OpenTelemetry collector (OTLP over HTTP), http://HOST:4318; null: none
    limits: Limits = field(default_factory=Limits)


@dataclass
class ServeRoot:
    """The sections that the verb reads."""

    serve: ServeConfig
    decode: DecodeConfig
    alignment: AlignmentConfig
