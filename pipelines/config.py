"""The configuration of every pipeline command: the sections of conf/recipe.yaml, each typed beside its code."""

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dragoman.model.bundles.download import bring_bundle
from dragoman.model.errors import UserError
from dragoman.model.languages import check_language, is_single, split_pair
from dragoman.model.names import check_name
from dragoman.model.ranges import Seed
from dragoman.model.runs.bundles import find_bundle, has_bundle
from dragoman.model.runs.paths import BUNDLE
from dragoman.model.settings import AlignmentConfig, DecodeConfig, EngineName
from dragoman.model.shards.manifest import ShardsConfig
from dragoman.model.storage.places import is_address, local_folder
from dragoman.model.text.tokenizer import TokenizerConfig
from dragoman.pipelines.corpus.settings import CorpusConfig
from dragoman.pipelines.evaluation.comparison_settings import CompareConfig
from dragoman.pipelines.settings import (
    ClusterConfig,
    EmbeddingsConfig,
    EvaluateConfig,
    ImportConfig,
    LoaderConfig,
    SynthesizeConfig,
    TrainConfig,
)
from dragoman.pipelines.tracking.settings import PromoteConfig, RegistryConfig, TrackingConfig
from dragoman.pipelines.word_vectors.settings import VectorsConfig

# The sections that a sharding reads.
SHARDING = ("pair", "seed", "paths", "corpus", "tokenizer", "shards", "tracking", "cluster")


@dataclass
class PathsConfig:
    """Locations; each may be a folder that all machines of a run can see, or an address (s3://..., gs://...)."""

    root: str = "artifacts"
    owner: str | None = None  # whose shards, runs and models these are; the job service sets it
    shards: str = "artifacts/shards/corpus"
    runs: str = "artifacts/runs"
    mlflow: str = "artifacts/mlflow"
    cache: str = "~/.cache/dragoman"

    def __post_init__(self) -> None:
        """Refuses invalid addresses."""
        for place in (self.root, self.shards, self.runs, self.mlflow):
            is_address(place)

    @property
    def visible(self) -> bool:
        """Returns True if the places are certainly the same here and on a cluster.

        Relative paths mean others there, and `root` may be on storage that only its nodes see."""
        return is_address(self.root) or (Path(self.root).is_absolute() and Path(self.root).is_dir())

    def local(self, place: str) -> Path:
        """Returns the local folder of a place, or the one that stands for it.

        It is absolute, so that workers started elsewhere mean the same one."""
        return local_folder(place, self.cache).absolute()

    def on_node(self) -> "PathsConfig":
        """Returns the same places for a process on another machine, which may have its own cache (DRAGOMAN_CACHE)."""
        return replace(self, cache=os.environ.get("DRAGOMAN_CACHE") or self.cache)

    def absolute(self) -> "PathsConfig":
        """Returns the same places for processes that start in another folder."""

        def whole(place: str) -> str:
            return place if is_address(place) else str(Path(place).expanduser().absolute())

        return replace(
            self,
            root=whole(self.root),
            shards=whole(self.shards),
            runs=whole(self.runs),
            mlflow=whole(self.mlflow),
            cache=whole(self.cache),
        )


@dataclass
class Config:
    """The sections that `dragoman shard`, `train`, `evaluate`, `promote` and the other pipeline commands read."""

    name: str = ""
    pair: str = "en-de"
    seed: Seed = 1
    engine: EngineName = "auto"  # of evaluations
    bundle: str | None = None  # to evaluate, or to translate with; null: the run `name`
    output: str | None = None  # a new folder, of `synthesize` and `unpack`
    models: list[str] = field(default_factory=list)  # to compare
    paths: PathsConfig = field(default_factory=PathsConfig)
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    shards: ShardsConfig = field(default_factory=ShardsConfig)
    model: dict[str, Any] = field(default_factory=dict)  # typed by its architecture, network or word vectors
    loader: LoaderConfig = field(default_factory=LoaderConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    embeddings: EmbeddingsConfig = field(default_factory=EmbeddingsConfig)
    vectors: VectorsConfig = field(default_factory=VectorsConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    alignment: AlignmentConfig = field(default_factory=AlignmentConfig)
    evaluate: EvaluateConfig = field(default_factory=EvaluateConfig)
    compare: CompareConfig = field(default_factory=CompareConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    registry: RegistryConfig = field(default_factory=RegistryConfig)
    promote: PromoteConfig = field(default_factory=PromoteConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)

    def __post_init__(self) -> None:
        """Refuses names that would lead out of the folders named after them; no run has a default name."""
        check_name("corpus.name", self.corpus.name)  # first the names that form other names
        check_name("pair", self.pair)
        check_name("tokenizer.name", self.tokenizer.name)
        check_name("registry.name", self.registry.name)
        if self.name != "":
            check_name("name", self.name)

    @property
    def languages(self) -> tuple[str, ...]:
        """Returns source and target language of `pair`, or the one language of a text corpus.

        Raises UserError: `pair` is not two names with a hyphen between, or for text not a single name.
        """
        form = self.corpus.format
        if form in ("text", "labelled") or (form == "webdataset" and is_single(self.pair)):
            if not is_single(self.pair) or not self.pair:
                raise UserError(f"pair={self.pair}: a {form} corpus has one language; give it, such as pair=en")
            return (check_language(self.pair),)
        return split_pair(self.pair)

    @property
    def run_dir(self) -> Path:
        """Returns the folder of the run `name`; absolute, so that workers started elsewhere mean the same one."""
        return self.paths.local(self.paths.runs) / check_name("name", self.name)

    @property
    def shard_dir(self) -> Path:
        """Returns the shard directory, absolute."""
        return self.paths.local(self.paths.shards)

    def bundle_dir(self, name: str | None, key: str) -> Path:
        """Returns the bundle of this run, or of the setting `key`: a path, a run, MODEL@ALIAS or MODEL/VERSION.

        Raises UserError: it does not exist; the message says where it was looked for.
        """
        if name is None:
            directory = self.run_dir / BUNDLE
            bring_bundle(directory)
            if not has_bundle(self.run_dir):
                raise UserError(
                    f"{key}: the run {self.name!r} has no bundle yet ({directory}); train it, or name another"
                )
            return directory
        runs, cache = self.paths.local(self.paths.runs), self.paths.local(self.paths.root) / "versions"
        found = find_bundle(name, runs, cache)
        if found is not None:
            return found.absolute()
        from dragoman.pipelines.tracking.locate import locate_version  # with MLflow, for a registered model alone

        return locate_version(name, key, runs, cache, self.tracking, self.registry)


@dataclass
class SynthesizeRoot(Config):
    """The sections that `dragoman synthesize` reads."""

    synthesize: SynthesizeConfig = field(default_factory=SynthesizeConfig)


@dataclass
class ImportRoot(Config):
    """The sections that the command reads; a name that nobody chose is empty, and the model's files say it."""

    imports: ImportConfig = field(default_factory=ImportConfig)

    def __post_init__(self) -> None:
        """Refuses names that would lead out of the folders named after them."""
        for key, name in (("name", self.name), ("pair", self.pair), ("registry.name", self.registry.name)):
            if name:
                check_name(key, name)
