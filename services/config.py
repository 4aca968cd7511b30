"""All sections that the services read, typed. A verb's own root (in its module) holds only those that it needs, so
that `dragoman jobs` does not load torch; this one is for whoever checks the configuration files as a whole."""

from dataclasses import dataclass, field

from model.alignment import AlignmentConfig
from model.decoding import DecodeConfig
from services.embed import EmbedConfig
from services.export import ExportConfig
from services.generate import ContinueConfig
from services.inspect import InspectConfig
from services.job_client import JobsConfig
from services.query import QueryConfig
from services.reranker import RerankConfig
from services.score import ScoreConfig
from services.serve import ServeConfig
from services.translate import TranslateConfig


@dataclass
class Config:
    """What `dragoman serve`, `translate`, `generate`, `embed`, `score`, `rerank`, `neighbours`, `analogy`, `export`,
    `inspect` and the verbs of jobs read."""

    name: str = ""
    pair: str = "en-de"
    seed: int = 1
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    alignment: AlignmentConfig = field(default_factory=AlignmentConfig)
    serve: ServeConfig = field(default_factory=ServeConfig)
    translate: TranslateConfig = field(default_factory=TranslateConfig)
    generate: ContinueConfig = field(default_factory=ContinueConfig)
    embed: EmbedConfig = field(default_factory=EmbedConfig)
    score: ScoreConfig = field(default_factory=ScoreConfig)
    rerank: RerankConfig = field(default_factory=RerankConfig)
    query: QueryConfig = field(default_factory=QueryConfig)
    export: ExportConfig = field(default_factory=ExportConfig)
    inspect: InspectConfig = field(default_factory=InspectConfig)
    jobs: JobsConfig = field(default_factory=JobsConfig)
