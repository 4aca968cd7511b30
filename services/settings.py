"""Sections of the commands that load a network; `model/settings.py` explains why they are apart from the code."""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from dragoman.model.ranges import Amount, Count, Interval, Port, Range, Whole
from dragoman.model.schema import NO_SETTING
from dragoman.model.settings import AlignmentConfig, DecodeConfig, EngineName, GenerateConfig
from dragoman.services.models.home import Device, Home


@dataclass
class BundleSource:
    """The source of the model; part of every section that loads one."""

    # a directory, a run's name, models:/NAME@ALIAS or models:/NAME/VERSION; null: the only one of the home
    bundle: str | None = field(default=None, metadata=NO_SETTING)
    home: Home = field(default_factory=Home, kw_only=True, metadata=NO_SETTING)


@dataclass
class ModelSource(BundleSource):
    """The source of a model that decodes."""

    engine: EngineName = field(default="auto", metadata=NO_SETTING)
    threads: Count | None = None  # batches decoded at a time; null: one per core


@dataclass
class TranslateConfig(ModelSource):
    """The input of a translation, its model, and the output."""

    input: str | None = field(default=None, metadata=NO_SETTING)  # null: standard input
    to: str | None = None  # the target language, of a multilingual model; null: the model's only one
    document: str | None = None  # instead: .docx .pptx .odt .epub .html .md .txt .srt .vtt .po .xliff .json
    output: str | None = field(default=None, metadata=NO_SETTING)  # null: standard output
    format: Literal["text", "nbest", "json", "html", "xml", "markdown"] = field(default="text", metadata=NO_SETTING)
    nbest: Count = 1  # translations per line, for nbest and json
    protect: bool = True  # keep what must not change; false: the model's own output
    glossary: str | None = None  # a file of terms: source TAB target, .csv or .tbx
    report: str | None = None  # a file for what was kept and how, one JSON object per line
    split: bool = False  # translate a line sentence by sentence
    longest: Count = field(default=400, metadata=NO_SETTING)  # characters of a sentence before it is cut further
    attention: str | None = None  # a file for the attention of each word: .png .svg .pdf .json; see section alignment
    lines: Count = field(default=256, metadata=NO_SETTING)  # at a time
    on_error: Literal["raise", "skip"] = field(default="raise", metadata=NO_SETTING)


@dataclass
class TranslateRoot:
    """The sections that the command reads."""

    FILE: ClassVar = "translate"
    device: Device
    engine: str | None
    bundle: str | None
    input: str | None
    output: str | None
    format: str | None
    on_error: str | None
    paths: dict[str, Any]
    tracking: dict[str, Any]
    translate: TranslateConfig
    decode: DecodeConfig
    alignment: AlignmentConfig


@dataclass
class ContinueConfig(BundleSource, GenerateConfig):
    """The texts to continue, the model, and the output."""

    prompt: str | None = None  # null: each line of the input
    input: str | None = field(default=None, metadata=NO_SETTING)  # null: standard input
    output: str | None = field(default=None, metadata=NO_SETTING)  # null: standard output
    format: Literal["text", "json"] = field(default="text", metadata=NO_SETTING)
    echo: bool = True  # text: print the prompt before the continuation
    at_once: Count = field(default=64, metadata=NO_SETTING)  # prompts
    on_error: Literal["raise", "skip"] = field(default="raise", metadata=NO_SETTING)


@dataclass
class PredictConfig(BundleSource):
    """The texts to predict for, the model, and the output."""

    input: str | None = field(default=None, metadata=NO_SETTING)  # null: standard input
    output: str | None = field(default=None, metadata=NO_SETTING)  # null: standard output
    format: Literal["text", "json"] = field(default="text", metadata=NO_SETTING)
    best: Count | None = None  # classes of a text, or tokens of a place; null: 1 class, 5 tokens
    steps: Count = 5  # a language model: tokens of the likeliest path
    picture: str | None = None  # a language or masked model: .png .svg .pdf
    lines: Count = field(default=1024, metadata=NO_SETTING)  # at a time
    on_error: Literal["raise", "skip"] = field(default="raise", metadata=NO_SETTING)


@dataclass
class EmbedConfig(BundleSource):
    """The texts to turn into vectors, the model, and the output."""

    input: str | None = field(default=None, metadata=NO_SETTING)  # null: standard input
    output: str | None = field(default=None, metadata=NO_SETTING)  # null: standard output
    format: Literal["json", "npy"] | None = field(default=None, metadata=NO_SETTING)  # null: by `output`
    unit: bool = False  # scale vectors to length 1, whose products are cosines; zeros stay
    too_long: Literal["error", "truncate"] = field(default="truncate", metadata=NO_SETTING)
    level: Literal["sentence", "token"] = "sentence"  # a vector per line, or one for each of its tokens
    layer: Annotated[int, Range()] | None = None  # 0: embeddings, -1: last; null: see docs
    batch_tokens: Count | None = None  # tokens of a batch with padding; null: each text alone, whatever its company
    lines: Count = field(default=1024, metadata=NO_SETTING)  # at a time
    on_error: Literal["raise", "skip"] = field(default="raise", metadata=NO_SETTING)


@dataclass
class ScoreConfig(BundleSource):
    """The pairs or texts to score, the model, and the output."""

    input: str | None = field(default=None, metadata=NO_SETTING)  # source TAB target, or text; null: standard input
    source: str | None = None  # instead: two files of lines, the sources
    target: str | None = None  # and the targets
    output: str | None = field(default=None, metadata=NO_SETTING)  # null: standard output
    format: Literal["text", "json"] = field(default="text", metadata=NO_SETTING)
    tokens: bool = False  # text and json: also print each token's
    searched: bool = False  # score as the search does: without its forbidden tokens in the softmax
    too_long: Literal["error", "truncate", "skip"] = field(default="error", metadata=NO_SETTING)
    batch_tokens: Count = field(default=8192, metadata=NO_SETTING)  # of both sides, in a batch with padding
    lines: Count = field(default=1024, metadata=NO_SETTING)  # pairs at a time
    on_error: Literal["raise", "skip"] = field(default="raise", metadata=NO_SETTING)


@dataclass
class RerankConfig(BundleSource):
    """The lists to rerank, the model, and the output."""

    nbest: str | None = None  # the lists; null: standard input
    source: str | None = None  # the source lines of the lists
    references: str | None = None  # their reference translations
    tune: str | None = None  # write weights tuned on these lists to this file
    weights: str | None = None  # weights from an earlier tuning
    feature: str = "Dragoman"  # name of our feature
    reverse: bool = False  # the model translates the other way: our feature scores the source, given the hypothesis
    output: str | None = field(default=None, metadata=NO_SETTING)
    format: Literal["text", "nbest", "scored"] = field(default="text", metadata=NO_SETTING)
    tokenize: str = "auto"  # sacreBLEU's tokeniser
    too_long: Literal["error", "truncate"] = field(default="error", metadata=NO_SETTING)
    batch_tokens: Count = field(default=8192, metadata=NO_SETTING)  # of both sides, in a batch with padding
    lists: Count = field(default=64, metadata=NO_SETTING)  # at a time


@dataclass
class Limits:
    """The limits of one request."""

    characters: Count = 5000  # in all texts of a request together
    tokens: Count = 8192  # about, in all texts of a request together
    texts: Count = 128  # in a list
    alternatives: Whole = 4  # translations besides the best one
    body: Count = 262_144  # bytes
    document: Count = 10_485_760  # bytes of a document
    documents: Count = 100  # that wait for their download at a time: of more the oldest go


@dataclass
class ServeConfig(ModelSource):
    """The endpoint and its models. Times are in seconds."""

    models: list[str] = field(default_factory=list)  # instead of `bundle`: several
    pivot: bool = True  # translate over a language in the middle where no model has the pair
    check_language: bool = True  # report texts that are not in the language that the client names
    poll: Interval = 10.0  # time between two looks for a newer version
    wait: bool = False  # true: start (and answer 503) before the registry has the models
    host: str = "127.0.0.1"
    port: Port = 5050  # 0: a free one
    proxies: list[str] = field(default_factory=list)  # addresses and networks whose X-Forwarded-For says who asks
    monitors: list[str] = field(default_factory=list)  # that read /status, /models and /metrics without a key
    batch: Count = 64  # most lines in a batch
    batch_tokens: Count = 4096  # about, most in a batch
    turn: Count = 512  # tokens, about: a longer request is decoded beside the others, in turns of as many
    queue: Count = 1024  # short requests' lines that may wait, and as many of long ones; more: 429
    timeout: Interval = 30.0
    document_timeout: Interval = 600.0  # for a document
    connections: Count = 4096  # at once, of one address a 32nd; more are refused
    receive_timeout: Interval = 15.0  # for a request's header to arrive, and for its body
    stop_timeout: Amount = 20.0  # for requests in progress when the server stops
    longest: Annotated[int, Range(16)] = 400  # characters of a sentence before it is cut further
    keys: str | None = None  # a file of API keys without limits, one per line, readable only by its owner
    database: str | None = "sqlite:///artifacts/endpoint/endpoint.db"  # of the API keys; null: none
    documents: str | None = "artifacts/endpoint/documents"  # a folder for translated documents; null: none
    glossary: str | None = None  # a file of terms for every request: source TAB target, .csv or .tbx; null: none
    suggestions: str | None = None  # a file to which POST /suggest adds a line of JSON, a corpus; null: none
    page: bool = True  # a page to translate on, at /
    origins: list[str] = field(default_factory=lambda: ["*"])  # web pages' addresses that may ask; *: all; []: none
    access_log: bool = False  # log one line per request: address, method, route, status, time; nothing that a user sent
    limits: Limits = field(default_factory=Limits)

    @property
    def per_address(self) -> int:
        """Returns how many connections, or behind a proxy requests at once, a client may have."""
        return max(1, self.connections // 32)


@dataclass
class ServeRoot:
    """The sections that the command reads."""

    FILE: ClassVar = "serve"
    device: Device
    engine: str | None
    bundle: str | None
    paths: dict[str, Any]
    tracking: dict[str, Any]
    serve: ServeConfig
    decode: DecodeConfig
    alignment: AlignmentConfig
