"""A fresh MLflow database a test, copied from one made once; processes and ports of loopback servers."""

import shutil
from pathlib import Path

import pytest

from dragoman.model.ports import free_ports
from dragoman.pipelines.tracking.server import TrackingConfig, connect


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An sqlite file with MLflow's tables."""
    path = tmp_path_factory.mktemp("mlflow") / "empty.db"
    connect(TrackingConfig(uri=f"sqlite:///{path}")).search_experiments()
    return path


@pytest.fixture
def tracking(empty_database: Path, tmp_path: Path) -> TrackingConfig:
    """Settings for a database of this test alone; the background thread sends at once."""
    database = tmp_path / "mlflow.db"
    shutil.copyfile(empty_database, database)
    return TrackingConfig(
        uri=f"sqlite:///{database}",
        artifacts=str(tmp_path / "mlartifacts"),
        flush_seconds=0.05,
        timeout=2.0,
        flush_timeout=60.0,
        system_metrics=False,
    )


@pytest.fixture
def free_port() -> int:
    """A loopback port that nothing listens on."""
    return free_ports(1)[0]
