"""All sections that the services read, typed. A command's own root has only those that it needs; this one checks the
configuration files as a whole."""

from dataclasses import dataclass, field

from dragoman.model.alignment.attention_map import AlignmentConfig
from dragoman.model.ranges import Seed
from dragoman.model.settings import DecodeConfig
from dragoman.services.commands.export import ExportConfig
from dragoman.services.commands.inspect import InspectConfig
from dragoman.services.commands.keys import KeysConfig
from dragoman.services.commands.query_settings import QueryConfig
from dragoman.services.commands.runs import RunsConfig
from dragoman.services.jobs.client.settings import JobsConfig
from dragoman.services.jobs.settings import ServiceConfig
from dragoman.services.settings import (
    ContinueConfig,
    EmbedConfig,
    PredictConfig,
    RerankConfig,
    ScoreConfig,
    ServeConfig,
    TranslateConfig,
)
from dragoman.services.sweeps.settings import SweepConfig


@dataclass
class Config:
    """The sections that commands of services/ read."""

    name: str = ""
    pair: str = "en-de"
    seed: Seed = 1
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    alignment: AlignmentConfig = field(default_factory=AlignmentConfig)
    serve: ServeConfig = field(default_factory=ServeConfig)
    translate: TranslateConfig = field(default_factory=TranslateConfig)
    generate: ContinueConfig = field(default_factory=ContinueConfig)
    predict: PredictConfig = field(default_factory=PredictConfig)
    embed: EmbedConfig = field(default_factory=EmbedConfig)
    score: ScoreConfig = field(default_factory=ScoreConfig)
    rerank: RerankConfig = field(default_factory=RerankConfig)
    query: QueryConfig = field(default_factory=QueryConfig)
    export: ExportConfig = field(default_factory=ExportConfig)
    inspect: InspectConfig = field(default_factory=InspectConfig)
    jobs: JobsConfig = field(default_factory=JobsConfig)
    sweep: SweepConfig = field(default_factory=SweepConfig)
    service: ServiceConfig = field(default_factory=ServiceConfig)
    runs: RunsConfig = field(default_factory=RunsConfig)
    keys: KeysConfig = field(default_factory=KeysConfig)
