"""A fresh MLflow database for each test; processes and ports of loopback servers."""

from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.model.ports import free_ports
from dragoman.pipelines.config import Config, PathsConfig
from dragoman.pipelines.promote import promote_version
from dragoman.pipelines.tracking import server
from dragoman.pipelines.tracking.promotion import Outcome
from dragoman.pipelines.tracking.settings import PromoteConfig, RegistryConfig, TrackingConfig
from dragoman.pipelines.word_vectors.settings import EvaluateVectors, VectorsConfig


@pytest.fixture
def tracking(tmp_path: Path) -> TrackingConfig:
    """Settings for a database of this test alone; the background thread sends at once."""
    server.make_database(tmp_path / "mlflow.db")
    return TrackingConfig(
        uri=f"sqlite:///{tmp_path}/mlflow.db",
        artifacts=str(tmp_path / "mlartifacts"),
        flush_seconds=0.05,
        timeout=2.0,
        flush_timeout=60.0,
        system_metrics=False,
    )


def places(root: Path) -> PathsConfig:
    """Everything below one folder."""
    return PathsConfig(root=str(root), runs=str(root / "runs"), mlflow=str(root))


def promoted(
    tracking: TrackingConfig,
    registry: RegistryConfig,
    settings: PromoteConfig,
    root: Path,
    shards: Path,
    sets: EvaluateVectors | None = None,
) -> Outcome:
    """Runs `dragoman promote` with these sections."""
    vectors = VectorsConfig(evaluate=sets or EvaluateVectors())
    paths = replace(places(root), shards=str(shards))
    return promote_version(Config(tracking=tracking, registry=registry, promote=settings, paths=paths, vectors=vectors))


@pytest.fixture
def free_port() -> int:
    """A loopback port that nothing listens on."""
    return free_ports(1)[0]
