"""A fresh MLflow database for each test; processes and ports of loopback servers."""

from pathlib import Path

import pytest

from dragoman.model.ports import free_ports
from dragoman.pipelines.config import PathsConfig
from dragoman.pipelines.tracking import server
from dragoman.pipelines.tracking.server import TrackingConfig


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


@pytest.fixture
def free_port() -> int:
    """A loopback port that nothing listens on."""
    return free_ports(1)[0]
